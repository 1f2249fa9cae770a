//! Random desired states and faults, then a world that behaves: the loop must converge and come to rest.

use proptest::prelude::*;
use tokio::time::sleep;

use super::world::{Bench, Fault, ms};
use crate::{Class, State};

/// A fault or change of the world.
#[derive(Debug, Clone)]
enum Blow {
    Want(u8, i32),
    Unwant(u8),
    /// Another program changes the target, unnoticed.
    Foreign(u8, i32),
    Bad(u8, Class),
    Observe(Option<Fault>),
    Apply(Option<Fault>),
    Lies(bool),
    Ready(bool),
    RunNow,
    Pass(u64),
}

fn blows() -> impl Strategy<Value = Blow> {
    let class = proptest::sample::select(Class::ALL.to_vec());
    let fault = prop_oneof![
        class.clone().prop_map(|class| Some(Fault::Error(class))),
        class.clone().prop_map(|class| Some(Fault::Once(class))),
        Just(Some(Fault::Panic)),
        Just(Some(Fault::Hang)),
        Just(None),
    ];
    prop_oneof![
        4 => (0u8..5, -1..4).prop_map(|(id, n)| Blow::Want(id, n)),
        2 => (0u8..5).prop_map(Blow::Unwant),
        2 => (0u8..5, 0..4).prop_map(|(id, n)| Blow::Foreign(id, n)),
        2 => (0u8..5, class).prop_map(|(id, class)| Blow::Bad(id, class)),
        1 => fault.clone().prop_map(Blow::Observe),
        1 => fault.prop_map(Blow::Apply),
        1 => proptest::bool::ANY.prop_map(Blow::Lies),
        1 => proptest::bool::ANY.prop_map(Blow::Ready),
        1 => Just(Blow::RunNow),
        4 => (0u64..3_000).prop_map(Blow::Pass),
    ]
}

async fn strike(bench: &Bench, blow: Blow) {
    match blow {
        Blow::Want(id, n) => bench.want(&id.to_string(), n),
        Blow::Unwant(id) => bench.unwant(&id.to_string()),
        Blow::Foreign(id, n) => bench.world(|w| w.foreign(&id.to_string(), n)),
        Blow::Bad(id, class) => bench.world(|w| w.spoil(id, class)),
        Blow::Observe(fault) => bench.world(|w| w.observe_fault = fault),
        Blow::Apply(fault) => bench.world(|w| w.apply_fault = fault),
        Blow::Lies(on) => bench.world(|w| w.lies = on),
        Blow::Ready(on) => bench.world(|w| w.ready = on),
        Blow::RunNow => bench.handle.run_now(),
        Blow::Pass(time) => sleep(ms(time)).await,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happened_it_converges_once_the_world_behaves(blows in proptest::collection::vec(blows(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let bench = Bench::start([("0", 1)]);
            for blow in blows {
                strike(&bench, blow).await;
            }
            bench.world(|w| w.behave());
            // The sleep covers the time limit of hanging calls, the longest delay, and a resync for unnoticed changes. An unwanted
            // undecided object stays.
            sleep(ms(82_000)).await;
            let (want, have) = bench.world(|w| (w.want.clone(), w.have.clone()));
            let status = bench.status();
            prop_assert_eq!(status.state, State::Converged);
            let decided = want.iter().filter(|(_, n)| **n >= 0);
            prop_assert!(decided.clone().all(|(id, n)| have.get(id) == Some(n)), "{:?} {:?}", &want, &have);
            prop_assert!(have.keys().all(|id| want.contains_key(id)), "{:?} {:?}", &want, &have);
            prop_assert_eq!(status.have, decided.count());
            prop_assert!(status.problems.iter().all(|problem| problem.code == "negative"));
            // A converged loop does not run again.
            let before = bench.status().generation;
            sleep(ms(59_000)).await;
            prop_assert!(bench.status().generation <= before + 2);
            Ok(())
        })?;
    }
}
