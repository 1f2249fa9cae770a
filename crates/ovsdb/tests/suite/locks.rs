//! Locks: waiting, stealing, losing, and asserting them in transactions.

use ovsdb::{CommitError, Transaction};

use crate::support::backend::on;
use crate::support::soon;
use crate::support::stable::{Horse, horse, id};

on! {
    // A lock lives in one server's memory; a relay asks another one to assert it.
    [real, fake, cluster]
    async fn one_holds_others_wait_and_transactions_assert(backend) {
        let (a, b) = (backend.client().await, backend.client().await);
        let mut of_a = a.lock("gate").await;
        assert!(soon("the lock is free", of_a.held()).await);
        let mut of_b = b.lock("gate").await;
        let asserting = |n: u128| {
            let mut txn = Transaction::new();
            txn.assert_lock("gate").insert(id(n), &horse(format!("h{n}"), 1));
            txn
        };
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

        // Who goes away holds nothing.
        b.close().await;
        let mut again = a.lock("gate").await;
        assert!(soon("the holder is gone", again.held()).await);
        assert_eq!(a.snapshot().table::<Horse>().len(), 3);
        assert_eq!(of_b.name(), "gate");
    }
}

on! {
    // A lock lives in one server's memory; a relay asks another one to assert it.
    [real, fake, cluster]
    async fn a_lock_is_asked_for_again_after_a_reconnection(backend) {
        let client = backend.client().await;
        let mut lock = client.lock("gate").await;
        assert!(soon("the lock is free", lock.held()).await);
        backend.stop().await;
        soon("the loss is told", lock.lost()).await;
        backend.start().await;
        assert!(soon("held again", lock.held()).await);
        let mut txn = Transaction::new();
        txn.assert_lock("gate").insert(id(1), &horse("a", 1));
        client.commit(&txn).await.unwrap();
    }
}
