//! Tests the work of password checks, counted in rounds.

use std::net::Ipv4Addr;
use std::task::Poll;

use super::*;

const COST: u32 = 5;

fn users() -> Htpasswd {
    let hash = |password, cost| bcrypt::hash(password, cost).unwrap();
    Htpasswd::parse(&format!("alice:{}\nbob:{}\n", hash("wonder", COST), hash("builder", COST))).unwrap()
}

/// The rounds that a check takes, and its outcome.
async fn work(users: &Htpasswd, user: &str, password: &str) -> (u64, Result<bool, TooManyChecks>) {
    let before = users.work.load(Ordering::Relaxed);
    let outcome = users.verify(Client::Local, user, password).await;
    (users.work.load(Ordering::Relaxed) - before, outcome)
}

#[tokio::test]
async fn a_user_who_does_not_exist_costs_as_much_as_one_who_does() {
    let users = users();
    let full = 1 << COST;
    assert_eq!(work(&users, "alice", "wrong").await, (full, Ok(false)));
    assert_eq!(work(&users, "nobody", "wrong").await, (full, Ok(false)));
    // A decoy must be a valid hash, or its check would end at once.
    let Hash::Bcrypt(decoy) = Hash::decoy(COST) else { panic!("it costs nothing") };
    assert_eq!(bcrypt::verify("wrong", &decoy).map_err(|error| error.to_string()), Ok(false));
}

#[tokio::test]
async fn users_with_cheaper_hashes_cost_as_much_as_the_costliest() {
    let hash = |cost| bcrypt::hash("pw", cost).unwrap();
    let sha = STANDARD.encode(Sha1::digest(b"pw"));
    let users = Htpasswd::parse(&format!("a:{}\nb:{}\nc:{}\nd:{{SHA}}{sha}\n", hash(4), hash(5), hash(7)));
    let users = users.unwrap();
    for user in ["a", "b", "c", "d", "nobody"] {
        assert_eq!(work(&users, user, "wrong").await, (1 << 7, Ok(false)), "{user}");
        assert_eq!(work(&users, user, "pw").await, (1 << 7, Ok(user != "nobody")), "{user}");
    }
    let cheap = Htpasswd::parse(&format!("d:{{SHA}}{sha}\n")).unwrap();
    assert_eq!(work(&cheap, "nobody", "pw").await, (0, Ok(false)));
    assert_eq!(work(&cheap, "d", "pw").await, (0, Ok(true)));
}

#[tokio::test]
async fn a_password_that_was_right_costs_nothing_the_next_time() {
    let users = users();
    assert_eq!(work(&users, "alice", "wonder").await, (1 << COST, Ok(true)));
    assert_eq!(work(&users, "alice", "wonder").await, (0, Ok(true)));
    assert_eq!(work(&users, "alice", "wonder!").await, (1 << COST, Ok(false)));
}

#[tokio::test]
async fn those_who_guess_are_turned_away_and_the_rightful_user_is_not() {
    let users = users();
    assert_eq!(users.verify(Client::Local, "alice", "wonder").await, Ok(true));
    // Another client has all turns, and as many waiting requests as allowed.
    let other = Client::of(Ipv4Addr::new(192, 0, 2, 1).into());
    let held = all_turns(&users, other).await;
    let mut guesses: Vec<_> =
        (0..ROOM.waiting_per_client).map(|_| Box::pin(users.verify(other, "alice", "guess"))).collect();
    for guess in &mut guesses {
        assert!(is_pending(guess.as_mut()).await);
    }
    assert_eq!(users.verify(other, "nobody", "guess").await, Err(TooManyChecks));
    assert_eq!(work(&users, "alice", "wonder").await, (0, Ok(true)));
    let mut bob = std::pin::pin!(users.verify(Client::Local, "bob", "builder"));
    assert!(is_pending(bob.as_mut()).await, "it waits for its turn");
    drop(held);
    let (bob, guesses) = tokio::join!(bob, futures_util::future::join_all(guesses));
    assert_eq!(bob, Ok(true));
    assert!(guesses.into_iter().all(|guess| guess == Ok(false)));
}

#[tokio::test]
async fn few_passwords_are_checked_at_once() {
    let users = users();
    assert!(users.turns.free() < std::thread::available_parallelism().map_or(2, NonZero::get).max(2));
    let held = all_turns(&users, Client::Local).await;
    let mut guess = std::pin::pin!(users.verify(Client::Local, "alice", "guess"));
    assert!(is_pending(guess.as_mut()).await, "it waits for its turn");
    assert_eq!(users.work.load(Ordering::Relaxed), 0);
    drop(held);
    assert_eq!(guess.await, Ok(false));
    assert!(users.turns.free() > 0);
}

async fn all_turns(users: &Htpasswd, client: Client) -> Vec<crate::auth::turns::Turn> {
    let mut held = Vec::new();
    while users.turns.free() > 0 {
        held.push(users.turns.next(client).await.unwrap());
    }
    held
}

async fn is_pending<T>(mut work: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await
}
