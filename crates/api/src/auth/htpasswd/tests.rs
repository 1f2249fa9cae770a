//! The work that log-ins cost, counted in rounds.

use std::task::Poll;

use super::*;

const COST: u32 = 5;

fn users() -> Htpasswd {
    let hash = |password, cost| bcrypt::hash(password, cost).unwrap();
    Htpasswd::parse(&format!("alice:{}\nbob:{}\n", hash("wonder", COST), hash("builder", COST))).unwrap()
}

/// The rounds that a log-in takes, and its outcome.
async fn work(users: &Htpasswd, user: &str, password: &str) -> (u64, Result<bool, TooManyChecks>) {
    let before = users.work.load(Ordering::Relaxed);
    let outcome = users.verify(user, password).await;
    (users.work.load(Ordering::Relaxed) - before, outcome)
}

#[tokio::test]
async fn a_user_who_does_not_exist_costs_as_much_as_one_who_does() {
    let users = users();
    let full = 1 << COST;
    assert_eq!(work(&users, "alice", "wrong").await, (full, Ok(false)));
    assert_eq!(work(&users, "nobody", "wrong").await, (full, Ok(false)));
    // The decoy is a real hash, or checking it would end at once.
    let Hash::Bcrypt(decoy) = &users.decoy else { panic!("{:?}", users.decoy) };
    assert_eq!(bcrypt::verify("wrong", decoy).map_err(|error| error.to_string()), Ok(false));
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
    assert_eq!(users.verify("alice", "wonder").await, Ok(true));
    // Others have all places.
    let places = users.waiting.try_acquire_many(u32::try_from(WAITING).unwrap()).unwrap();
    assert_eq!(work(&users, "alice", "guess").await, (0, Err(TooManyChecks)));
    assert_eq!(work(&users, "nobody", "guess").await, (0, Err(TooManyChecks)));
    assert_eq!(work(&users, "alice", "wonder").await, (0, Ok(true)));
    drop(places);
    assert_eq!(work(&users, "bob", "builder").await, (1 << COST, Ok(true)));
}

#[tokio::test]
async fn few_passwords_are_checked_at_once() {
    let users = users();
    let turns = users.checks.available_permits();
    assert!(turns < std::thread::available_parallelism().map_or(2, NonZero::get).max(2));
    let taken = users.checks.try_acquire_many(u32::try_from(turns).unwrap()).unwrap();
    let guess = users.verify("alice", "guess");
    let mut guess = std::pin::pin!(guess);
    let waits = std::future::poll_fn(|cx| Poll::Ready(guess.as_mut().poll(cx).is_pending())).await;
    assert!(waits, "it waits for its turn");
    assert_eq!(users.work.load(Ordering::Relaxed), 0);
    drop(taken);
    assert_eq!(guess.await, Ok(false));
}
