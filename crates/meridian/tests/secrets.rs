//! Secrets: what the program prints of them, where it reads them, and the permissions of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use lab::postgres::Postgres;
use proptest::prelude::*;

fn meridian(dir: &Path, config: &str, words: &[&str]) -> Output {
    let file = dir.join("meridian.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.arg("--config").arg(&file).args(words).current_dir(dir).env_remove("RUST_BACKTRACE");
    command.output().unwrap()
}

/// Everything that a run printed.
fn all(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// Arguments of a server that cannot work, because nothing listens at the remotes of its databases.
const SERVE: [&str; 15] = [
    "server",
    "--data-dir",
    "data",
    "--listen",
    "127.0.0.1:0",
    "--lb-listen",
    "none",
    "--metrics-listen",
    "127.0.0.1:0",
    "--log-level",
    "trace",
    "--nb",
    "unix:nb.sock",
    "--sb",
    "unix:sb.sock",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_password_is_in_no_printed_configuration_and_in_no_error(
        before in "[a-z@/?#:&=]{0,3}",
        after in "[a-z@/?#:&=]{0,3}",
        shape in 0_usize..7,
    ) {
        let password = format!("{before}S3CRET{after}");
        // No server listens at port 1, so each of them fails.
        let (key, url) = match shape {
            0 => ("database", format!("postgres://u:{password}@127.0.0.1:1/m")),
            1 => ("database", format!("postgres://u@127.0.0.1:1/m?password={password}")),
            2 => ("database", format!("postgress://u:{password}@127.0.0.1:1/m")),
            3 => ("database", format!("u:{password}@127.0.0.1")),
            4 => ("database", format!("postgres://u:{password}@127.0.0.1:1/m?sslmode=verify-full")),
            5 => ("keystone_url", format!("http://u:{password}@127.0.0.1:1/v3")),
            _ => ("keystone_url", format!("htp://u:{password}@127.0.0.1:1/v3")),
        };
        let dir = tempfile::tempdir().unwrap();
        let config = "[server]\nauth = \"keystone\"\nkeystone_url = \"http://127.0.0.1:1\"\n".to_owned();
        let config = match key {
            "database" => format!("{config}database = '{url}'\n"),
            _ => config.replace("\"http://127.0.0.1:1\"", &format!("'{url}'")),
        };
        let printed = meridian(dir.path(), &config, &["server", "--print-config"]);
        prop_assert!(printed.status.success(), "{}", all(&printed));
        prop_assert!(!all(&printed).contains("S3CRET"), "{}", all(&printed));
        let refused = meridian(dir.path(), &config, &SERVE);
        prop_assert!(!refused.status.success(), "{}", all(&refused));
        prop_assert!(!all(&refused).contains("S3CRET"), "{}", all(&refused));
    }
}

#[test]
fn a_secret_file_that_cannot_be_read_is_named_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let none = "[server]\nauth = \"none\"\ndatabase = \"postgres://u@127.0.0.1:1/m\"\n";
    for (config, key) in [
        (format!("{none}database_password_file = \"gone\"\n"), "database_password_file"),
        ("[server]\nauth = \"token\"\ntoken_file = \"gone\"\n".to_owned(), "token_file"),
        (
            "[server]\nauth = \"keystone\"\nkeystone_url = \"http://127.0.0.1:1\"\nkeystone_username = \"u\"\n\
             keystone_password_file = \"gone\"\n"
                .to_owned(),
            "keystone_password_file",
        ),
    ] {
        for (text, why) in [(None, "No such file"), (Some("\n"), "its first line is empty")] {
            let file = dir.path().join("gone");
            let _ = fs::remove_file(&file);
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            let said = all(&meridian(dir.path(), &config, &SERVE));
            assert!(said.contains(&format!("server.{key} (")) && said.contains("gone"), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }
}

#[test]
fn the_password_of_a_database_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
    postgres.create_database("meridian").unwrap();
    postgres.sql("meridian", "CREATE ROLE app LOGIN SUPERUSER PASSWORD 'S3CRET p@ss'").unwrap();
    let rules = postgres.sql("postgres", "SHOW hba_file").unwrap();
    fs::write(rules.trim(), "local all app scram-sha-256\nlocal all all trust\n").unwrap();
    postgres.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    let file = dir.path().join("password");
    fs::write(&file, "S3CRET p@ss\n").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let config = |key: &str| {
        let url = postgres.url("meridian").replace("meridian@", "app@");
        format!("[server]\nauth = \"none\"\ndatabase = \"{url}\"\n{key}")
    };
    // The server binds its admin socket only after it has opened its database. Here a file is in the way.
    let mut words = SERVE.to_vec();
    words.extend(["--admin-socket", "password"]);
    let in_vain = all(&meridian(dir.path(), &config(""), &words));
    assert!(in_vain.contains("cannot use postgres://app@"), "{in_vain}");
    let key = format!("database_password_file = \"{}\"\n", file.display());
    let let_in = all(&meridian(dir.path(), &config(&key), &words));
    assert!(let_in.contains("cannot listen on password for admin requests"), "{let_in}");
    assert!(let_in.contains("every user of this machine may read a secret"), "{let_in}");
    fs::write(&file, "S3CRET wrong\n").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let wrong = all(&meridian(dir.path(), &config(&key), &words));
    assert!(wrong.contains("cannot use postgres://app@"), "{wrong}");
    assert!(!wrong.contains("every user"), "{wrong}");
    for said in [in_vain, let_in, wrong] {
        assert!(!said.contains("S3CRET"), "{said}");
    }
}
