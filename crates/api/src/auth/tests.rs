//! Tests valid and invalid credentials of each back end.

use super::*;
use crate::auth::keystone::KeystoneSettings;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(*name, value.parse().unwrap());
    }
    headers
}

fn is_unauthorized(outcome: Result<Caller, Denied>) -> bool {
    matches!(outcome, Err(Denied::Unauthorized(_)))
}

#[tokio::test]
async fn without_credentials_everybody_is_administrator() {
    let auth = Auth::open("p");
    for given in [&[][..], &[("x-auth-token", "notused")]] {
        assert_eq!(auth.caller(Client::Local, &headers(given)).await.unwrap(), Caller::admin("p"));
    }
}

#[test]
fn an_open_api_stays_on_this_machine_unless_somebody_insists() {
    let open = Auth::open("p");
    for (address, good) in [
        ("127.0.0.1:9696", true),
        ("127.1.2.3:9696", true),
        ("[::1]:9696", true),
        ("[::ffff:127.0.0.1]:9696", true),
        ("0.0.0.0:9696", false),
        ("[::]:9696", false),
        ("192.0.2.1:9696", false),
    ] {
        let address = address.parse().unwrap();
        assert_eq!(open.check_listen(address, false).is_ok(), good, "{address}");
        assert!(open.check_listen(address, true).is_ok());
        assert!(Auth::token(&"t".into(), "p").check_listen(address, false).is_ok());
    }
}

#[tokio::test]
async fn one_token_opens_and_no_other() {
    let auth = Auth::token(&"s3cret".into(), "p");
    assert_eq!(
        auth.caller(Client::Local, &headers(&[("x-auth-token", "s3cret")])).await.unwrap(),
        Caller::admin("p")
    );
    for given in
        [&[][..], &[("x-auth-token", "")], &[("x-auth-token", "s3cre")], &[("authorization", "s3cret")]]
    {
        assert!(is_unauthorized(auth.caller(Client::Local, &headers(given)).await), "{given:?}");
    }
}

/// `htpasswd -nbB -C 4 alice wonder` and `htpasswd -nbs bob builder`.
async fn users() -> Auth {
    let bcrypt = bcrypt::hash("wonder", 4).unwrap();
    let sha = STANDARD.encode(sha1::Sha1::digest(b"builder"));
    Auth::basic(Htpasswd::parse(&format!("# users\nalice:{bcrypt}\n\nbob:{{SHA}}{sha}\n")).unwrap(), "p")
}

#[tokio::test]
async fn users_of_a_file_get_in_with_their_password() {
    let auth = users().await;
    let encoded = |text: &str| format!("Basic {}", STANDARD.encode(text));
    for (given, user) in [("alice:wonder", "alice"), ("bob:builder", "bob"), ("alice:wonder", "alice")] {
        let caller =
            auth.caller(Client::Local, &headers(&[("authorization", &encoded(given))])).await.unwrap();
        assert_eq!((caller.user.as_str(), caller.admin, caller.project.as_str()), (user, true, "p"));
    }
    for given in ["alice:builder", "alice:", "carol:wonder", "alice", ":", "bob:wonder"] {
        assert!(
            is_unauthorized(
                auth.caller(Client::Local, &headers(&[("authorization", &encoded(given))])).await
            ),
            "{given}"
        );
    }
    for given in ["Basic", "Basic %%%", "Bearer abc", "Basic /w=="] {
        assert!(
            is_unauthorized(auth.caller(Client::Local, &headers(&[("authorization", given)])).await),
            "{given}"
        );
    }
}

#[test]
fn files_that_nobody_could_use_are_refused() {
    for (text, said) in [
        ("", "there are no users"),
        ("alice", "line 1 of the users is not of the form user:hash"),
        (":x", "line 1 of the users is not of the form user:hash"),
        ("\nalice:$apr1$x$y", "the password of user alice (line 2) is neither bcrypt nor {SHA}"),
        ("alice:$2y$05$short", "the password of user alice (line 1) is neither bcrypt nor {SHA}"),
        ("alice:{SHA}zzz", "the password of user alice (line 1) is neither bcrypt nor {SHA}"),
    ] {
        let error = Htpasswd::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{text}: {error}");
    }
    assert!(Htpasswd::read(std::path::Path::new("/nonexistent/users")).is_err());
}

#[test]
fn a_url_of_keystone_has_no_password_wherever_it_ends_up() {
    for url in [
        "http://u:secret@127.0.0.1:5000/v3",
        "http://u:/secret@127.0.0.1:5000/v3",
        "http://u:sec/ret@127.0.0.1:5000/v3",
        "http://u:?secret@127.0.0.1:5000/v3",
        "http://u:#secret@127.0.0.1:5000/v3",
    ] {
        match Keystone::new(&KeystoneSettings::at(url.to_owned())) {
            Ok(_) => panic!("{url} is taken"),
            Err(error) => assert!(!error.to_string().contains("secret"), "{error}"),
        }
    }
    assert!(Keystone::new(&KeystoneSettings::at("http://127.0.0.1:5000/identity/v3".to_owned())).is_ok());
}
