//! Copies the load balancers whose rows the Northbound refuses from the problems of the writer's loop into the report.
//!
//! This makes a refused load balancer `ERROR` at once. Only the writing server knows of refusals; on the others the deadline makes it
//! `ERROR`.

use std::collections::BTreeMap;

use reconcile::{Class, Problem, Severity, Status};
use tokio::sync::watch;
use uuid::Uuid;

use super::OvnView;
use crate::desired::LOAD_BALANCER_OBJECT;
use crate::model::LoadBalancer;
use crate::report::Refusal;
use crate::world::World;

/// Keeps the refusals in the report up to date with the loop. Ends with the loop.
pub(super) async fn follow(
    mut status: watch::Receiver<Status>,
    worlds: watch::Receiver<World>,
    ovn: OvnView,
) {
    loop {
        let found = {
            let status = status.borrow_and_update();
            // A server that waits to become the writer runs no plan, so its last problems are out of date.
            let problems = if status.waiting_for.is_some() { &[] } else { status.problems.as_slice() };
            refusals(problems, &worlds.borrow())
        };
        ovn.set_refusals(found);
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// The refused load balancers, each with its present generation. A refused load balancer accepts no further changes, so this is the
/// generation that was refused.
fn refusals(problems: &[Problem], world: &World) -> BTreeMap<Uuid, Refusal> {
    let refused = problems.iter().filter(|problem| {
        problem.object.kind == LOAD_BALANCER_OBJECT
            && problem.severity == Severity::Error
            && problem.class == Class::Refused
    });
    let found = refused.filter_map(|problem| {
        let id = Uuid::try_parse(&problem.object.id.text()).ok()?;
        let generation = world.get::<LoadBalancer>(&id)?.generation;
        Some((id, Refusal { generation, reason: problem.message.as_str().into() }))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use reconcile::ObjectId;

    use super::*;
    use crate::desired::tests::load_balancers::balancer;
    use crate::desired::tests::scene::{NET, SUB, Scene};
    use crate::resource::fixture::id;

    #[test]
    fn only_refused_rows_of_load_balancers_count() {
        let mut scene = Scene::new();
        balancer(&mut scene, 0x100, NET, SUB, "10.0.0.10");
        let object = |kind: &'static str, n: u128| ObjectId::new(kind, id(n).to_string());
        let refused = |object| Problem::error(object, Class::Refused, "apply-failed", "constraint violation");
        let problems = [
            refused(object("loadbalancer", 0x100)),
            refused(object("loadbalancer", 0xdead)),
            refused(object("port", 0x100)),
        ];
        let found = refusals(&problems, scene.world());
        let expected = Refusal { generation: 1, reason: "constraint violation".into() };
        assert_eq!(found, [(id(0x100), expected)].into());
        for class in [Class::Transient, Class::Conflict] {
            let passing = Problem::error(object("loadbalancer", 0x100), class, "apply-failed", "try again");
            assert_eq!(refusals(&[passing], scene.world()), BTreeMap::new(), "{class:?}");
        }
        let warning =
            Problem::warning(object("loadbalancer", 0x100), Class::Refused, "vip-without-router", "x");
        assert_eq!(refusals(&[warning], scene.world()), BTreeMap::new());
    }
}
