//! Locks: waiting, stealing, losing, and asserting them in transactions.

use ovsdb::client::LockState;
use ovsdb::{CommitError, Transaction};

use crate::support::backend::on;
use crate::support::soon;
use crate::support::stable::{Horse, horse, id};

/// A transaction that asserts the lock.
fn asserting(n: u128) -> Transaction {
    let mut txn = Transaction::new();
    txn.assert_lock("gate").insert(id(n), &horse(format!("h{n}"), 1));
    txn
}

on! {
    // A lock lives in one server's memory. A relay would forward the assertion of it to another server.
    [real, fake, cluster]
    async fn one_holds_others_wait_and_transactions_assert(backend) {
        let (a, b) = (backend.client().await, backend.client().await);
        let mut of_a = a.lock("gate").await;
        assert!(soon("the lock is free", of_a.held()).await);
        let mut of_b = b.lock("gate").await;
        a.commit(&asserting(1)).await.unwrap();
        let not_ours = CommitError::NotOwner { lock: "gate".into() };
        assert_eq!(b.commit(&asserting(2)).await.unwrap_err(), not_ours);
        assert!(!of_b.is_held() && of_a.is_held());

        drop(of_a);
        assert!(soon("it was given back", of_b.held()).await);
        b.commit(&asserting(2)).await.unwrap();
        assert_eq!(a.commit(&asserting(3)).await.unwrap_err(), not_ours);

        // Stolen, and given back to the one it was stolen from.
        let mut stolen = a.steal("gate").await;
        assert!(soon("stealing", stolen.held()).await);
        soon("the loss is told", of_b.lost()).await;
        assert_eq!(b.commit(&asserting(4)).await.unwrap_err(), not_ours);
        a.commit(&asserting(4)).await.unwrap();
        drop(stolen);
        assert!(soon("the thief gives it back", of_b.held()).await);

        // A closed client releases its locks.
        b.close().await;
        let mut again = a.lock("gate").await;
        assert!(soon("the holder is gone", again.held()).await);
        assert_eq!(a.snapshot().table::<Horse>().len(), 3);
        assert_eq!(of_b.name(), "gate");
    }
}

on! {
    // A lock lives in one server's memory. A relay would forward the assertion of it to another server.
    [real, fake, cluster]
    async fn a_lock_is_asked_for_again_after_a_reconnection(backend) {
        let client = backend.client().await;
        let mut lock = client.lock("gate").await;
        assert!(soon("the lock is free", lock.held()).await);
        backend.stop().await;
        soon("the loss is told", lock.lost()).await;
        backend.start().await;
        assert!(soon("held again", lock.held()).await);
        client.commit(&asserting(1)).await.unwrap();
    }
}

on! {
    // A lock lives in one server's memory. A relay would forward the assertion of it to another server.
    [real, fake, cluster]
    async fn a_thief_that_is_robbed_has_the_lock_again_once_it_is_free(backend) {
        let (a, b) = (backend.client().await, backend.client().await);
        let mut of_a = a.steal("gate").await;
        assert!(soon("stealing", of_a.held()).await);
        let mut of_b = b.steal("gate").await;
        assert!(soon("stealing from a thief", of_b.held()).await);
        soon("the loss is told", of_a.lost()).await;
        drop(of_b);
        assert!(soon("the second thief gives it back", of_a.held()).await);
        a.commit(&asserting(1)).await.unwrap();
        // It has waited now, and keeps its place when it is robbed again.
        let mut of_b = b.steal("gate").await;
        assert!(soon("stealing again", of_b.held()).await);
        soon("the loss is told again", of_a.lost()).await;
        drop(of_b);
        assert!(soon("it is given back again", of_a.held()).await);
    }
}

on! {
    // A lock lives in one server's memory. A relay would forward the assertion of it to another server.
    [real, fake, cluster]
    async fn several_of_one_name_are_one_lock(backend) {
        let (a, b) = (backend.client().await, backend.client().await);
        let mut first = a.lock("gate").await;
        assert!(soon("the lock is free", first.held()).await);
        let mut second = a.lock("gate").await;
        assert!(soon("it is ours already", second.held()).await);
        let state = first.state();
        drop(first);
        a.commit(&asserting(1)).await.unwrap();
        assert!(second.is_held());
        assert_eq!(*state.borrow(), LockState::Waiting, "who has left holds nothing");

        // A waiting client may give up.
        let mut waiting = b.lock("gate").await;
        let not_ours = CommitError::NotOwner { lock: "gate".into() };
        assert_eq!(b.commit(&asserting(2)).await.unwrap_err(), not_ours);
        let mut impatient = b.steal("gate").await;
        assert!(soon("stealing", impatient.held()).await);
        assert!(soon("it is one lock", waiting.held()).await);
        soon("the loss is told", second.lost()).await;
        drop(impatient);
        b.commit(&asserting(2)).await.unwrap();
        assert!(waiting.is_held());
        drop(waiting);
        assert!(soon("the last one gives it back", second.held()).await);
    }
}
