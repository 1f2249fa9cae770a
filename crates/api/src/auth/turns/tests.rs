//! The order of turns, without credentials.

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::Poll;

use super::*;

const ROOM: Room = Room { checks: 1, waiting_per_client: 32, waiting: 256 };

type Waiting = Pin<Box<dyn Future<Output = Result<Turn, TooManyChecks>>>>;

fn client(n: u8) -> Client {
    Client::of(Ipv4Addr::new(192, 0, 2, n).into())
}

/// Queues a request of a client.
async fn waits(turns: &Arc<Turns>, n: u8) -> Waiting {
    let turns = Arc::clone(turns);
    let mut waiting: Waiting = Box::pin(async move { turns.next(client(n)).await });
    assert!(polled(&mut waiting).await.is_none(), "it does not wait");
    waiting
}

async fn polled(waiting: &mut Waiting) -> Option<Result<Turn, TooManyChecks>> {
    std::future::poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_client_with_many_requests_delays_another_one_by_one() {
    let turns = Turns::new(ROOM);
    let held = turns.next(client(1)).await.unwrap();
    let mut guesses = Vec::new();
    for _ in 0..ROOM.waiting_per_client {
        guesses.push(waits(&turns, 1).await);
    }
    assert_eq!(turns.next(client(1)).await.unwrap_err(), TooManyChecks);
    let mut user = waits(&turns, 2).await;
    drop(held);
    assert!(polled(&mut user).await.is_none());
    let guess = polled(&mut guesses[0]).await.unwrap().unwrap();
    drop(guess);
    let user = polled(&mut user).await.unwrap().unwrap();
    assert!(polled(&mut guesses[1]).await.is_none());
    drop(user);
    assert!(polled(&mut guesses[1]).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_full_queue_has_room_for_a_client_that_waits_less_often_than_others() {
    let turns = Turns::new(ROOM);
    let held = turns.next(client(1)).await.unwrap();
    let mut guesses = Vec::new();
    for n in 0..ROOM.waiting {
        guesses.push(waits(&turns, u8::try_from(n / ROOM.waiting_per_client).unwrap()).await);
    }
    let mut users = [waits(&turns, 100).await, waits(&turns, 101).await, waits(&turns, 100).await];
    let mut refused = 0;
    for guess in &mut guesses {
        refused += usize::from(polled(guess).await.is_some_and(|outcome| outcome.is_err()));
    }
    assert_eq!(refused, users.len());
    drop(held);
    // The first eight turns belong to the crowd, the next two to the users.
    for guess in 0..ROOM.waiting / ROOM.waiting_per_client {
        drop(polled(&mut guesses[guess * ROOM.waiting_per_client]).await.unwrap().unwrap());
    }
    for user in &mut users[..2] {
        drop(polled(user).await.unwrap().unwrap());
    }
    assert!(polled(&mut users[2]).await.is_none());
}

#[tokio::test]
async fn clients_that_leave_keep_no_place_and_no_turn() {
    let turns = Turns::new(ROOM);
    let held = turns.next(client(1)).await.unwrap();
    for _ in 0..3 * ROOM.waiting_per_client {
        drop(waits(&turns, 1).await);
    }
    let mut last = waits(&turns, 1).await;
    drop(held);
    let turn = polled(&mut last).await.unwrap().unwrap();
    let left = waits(&turns, 2).await;
    drop(turn);
    // The request got the turn and left without using it.
    drop(left);
    assert!(turns.next(client(3)).await.is_ok());
    assert_eq!(turns.queue().free, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let turns = Turns::new(ROOM);
    let _held = turns.next(client(1)).await.unwrap();
    assert_eq!(turns.next(client(2)).await.unwrap_err(), TooManyChecks);
}
