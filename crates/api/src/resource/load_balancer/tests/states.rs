//! The statuses follow from the generation in the Northbound; none is stored.

use super::*;

#[test]
fn the_state_follows_from_generation_report_and_deadline() {
    let (cloud, id) = Cloud::with_balancer();
    let mut whole = cloud.whole(&id);
    whole.generation = 5;
    let old = crate::model::Generation { created: 2, changed: 3 };
    let changed = crate::model::Generation { created: 2, changed: 5 };
    let new = crate::model::Generation::new(5);
    use Provisioning::{Active, Error, PendingCreate, PendingUpdate};
    let unknown = |at_start| AppliedGeneration::Unknown { at_start };
    for (object, applied, early, late) in [
        (old, AppliedGeneration::At(Some(4)), Active, Active),
        (changed, AppliedGeneration::At(Some(4)), PendingUpdate, Error),
        (new, AppliedGeneration::At(Some(4)), PendingCreate, Error),
        (changed, AppliedGeneration::At(Some(5)), Active, Active),
        (changed, AppliedGeneration::At(None), PendingUpdate, Error),
        (old, AppliedGeneration::Refused(Some(4)), Active, Active),
        (changed, AppliedGeneration::Refused(Some(4)), Error, Error),
        (new, AppliedGeneration::Refused(None), Error, Error),
        (changed, unknown(Some(5)), PendingUpdate, Active),
        (new, unknown(Some(5)), PendingCreate, Active),
        // Changes since the start of a server without the Northbound are in no row.
        (changed, unknown(Some(4)), PendingUpdate, Error),
        (old, unknown(Some(4)), Active, Active),
        (new, unknown(Some(4)), PendingCreate, Error),
        (new, unknown(None), PendingCreate, Error),
    ] {
        for (after, expected) in [(29, early), (30, late)] {
            let now = Timestamp::from_second(START + after).unwrap();
            let state = status::provisioning(&whole, object, applied, now);
            assert_eq!(state, expected, "{object:?} {applied:?} after {after} s");
            let deleted = LoadBalancer { deleted: true, ..whole.clone() };
            let state = status::provisioning(&deleted, object, applied, now);
            assert_eq!(state, if after < 30 { Provisioning::PendingDelete } else { Error });
        }
    }
}

#[test]
fn a_write_makes_what_depends_on_it_wait_for_the_northbound() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let other = cloud.make("pools", pool(&whole));
    let mut served = listener(&whole, 80);
    served["default_pool_id"] = json!(pool_id);
    let front = cloud.make("listeners", served);
    let aside = cloud.make("listeners", listener(&whole, 81));
    let members = format!("pools/{pool_id}/members");
    let made = cloud.create(&members, json!({"address": "10.0.0.7", "protocol_port": 80})).unwrap();
    assert_eq!((&made["provisioning_status"], &made["updated_at"]), (&json!("PENDING_CREATE"), &Value::Null));
    assert_eq!(made["operating_status"], "NO_MONITOR");
    for (path, id, state) in [
        ("loadbalancers", &whole, "PENDING_UPDATE"),
        ("pools", &pool_id, "PENDING_UPDATE"),
        ("pools", &other, "ACTIVE"),
        ("listeners", &front, "PENDING_UPDATE"),
        ("listeners", &aside, "ACTIVE"),
    ] {
        assert_eq!(cloud.states(path, id).0, state, "{path}");
    }
    cloud.apply();
    for (path, id) in [("loadbalancers", &whole), ("pools", &pool_id), ("listeners", &front)] {
        assert_eq!(cloud.states(path, id), states("ACTIVE", "ONLINE"), "{path}");
    }
    assert_eq!(cloud.show(&members, &text(&made["id"])).unwrap()["updated_at"], "2027-01-15T08:00:00");
}

#[test]
fn what_is_pending_cannot_be_changed_and_what_failed_can_be_deleted() {
    let mut cloud = Cloud::new();
    let made = cloud.create("loadbalancers", json!({"vip_subnet_id": id(2)})).unwrap();
    let whole = text(&made["id"]);
    assert_eq!(
        (&made["provisioning_status"], &made["operating_status"]),
        (&json!("PENDING_CREATE"), &json!("OFFLINE"))
    );
    cloud.report.set_northbound_read();
    let invalid = |state: &str| (409, format!("Invalid state {state} of loadbalancer resource {whole}"));
    let immutable = (409, format!("Load Balancer {whole} is immutable and cannot be updated."));
    assert_eq!(cloud.update("loadbalancers", &whole, json!({"name": "x"})), Err(invalid("PENDING_CREATE")));
    assert_eq!(cloud.delete("loadbalancers", &whole, ""), Err(invalid("PENDING_CREATE")));
    assert_eq!(cloud.create("pools", pool(&whole)).unwrap_err(), immutable);
    assert_eq!(cloud.create("listeners", listener(&whole, 80)).unwrap_err(), immutable);
    cloud.now += 30;
    assert_eq!(cloud.states("loadbalancers", &whole).0, "ERROR");
    assert_eq!(cloud.update("loadbalancers", &whole, json!({"name": "x"})), Err(invalid("ERROR")));
    assert_eq!(cloud.create("pools", pool(&whole)).unwrap_err(), immutable);
    cloud.delete("loadbalancers", &whole, "").unwrap();
    assert_eq!(cloud.states("loadbalancers", &whole).0, "PENDING_DELETE");
    assert_eq!(cloud.delete("loadbalancers", &whole, ""), Err(invalid("PENDING_DELETE")));
    assert!(cloud.whole(&whole).rows.is_empty());
    assert_eq!(cloud.world.table::<Port>().len(), 1, "the port goes when the rows are gone");
}

#[test]
fn operating_states_rise_from_the_members() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    assert_eq!(cloud.states("pools", &pool_id).1, "OFFLINE", "neither listener nor member");
    let mut served = listener(&whole, 80);
    served["default_pool_id"] = json!(pool_id);
    let front = cloud.make("listeners", served);
    assert_eq!(cloud.states("pools", &pool_id).1, "ONLINE");
    let members = format!("pools/{pool_id}/members");
    let one = cloud.make(&members, json!({"address": "10.0.0.7", "protocol_port": 80}));
    let two = cloud.make(&members, json!({"address": "10.0.0.8", "protocol_port": 80}));
    let backends = ["10.0.0.7", "10.0.0.8"].map(|address| cloud.backend(address, 80));
    assert_eq!(cloud.states(&members, &one).1, "NO_MONITOR");
    let monitor = json!({"pool_id": pool_id, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    cloud.make("healthmonitors", monitor);
    assert_eq!(cloud.states(&members, &one).1, "OFFLINE", "not probed yet");
    for (answers, members_are, others_are) in [
        ([true, true], ["ONLINE", "ONLINE"], "ONLINE"),
        ([true, false], ["ONLINE", "ERROR"], "DEGRADED"),
        ([false, false], ["ERROR", "ERROR"], "ERROR"),
    ] {
        for (backend, answers) in backends.iter().zip(answers) {
            let result = if answers { ProbeResult::Online } else { ProbeResult::Offline };
            cloud.report.set_probe(*backend, Some(result));
        }
        assert_eq!([&one, &two].map(|id| cloud.states(&members, id).1), members_are);
        assert_eq!(cloud.states("pools", &pool_id).1, others_are);
        assert_eq!(cloud.states("listeners", &front).1, others_are);
        assert_eq!(cloud.states("loadbalancers", &whole).1, others_are);
    }
    backends.iter().for_each(|backend| cloud.report.set_probe(*backend, None));
    cloud.update(&members, &one, json!({"weight": 0})).unwrap();
    assert_eq!(cloud.states(&members, &one).1, "DRAINING");
    cloud.apply();
    cloud.update("loadbalancers", &whole, json!({"admin_state_up": null})).unwrap();
    assert_eq!(cloud.states("loadbalancers", &whole).1, "OFFLINE");
    let tree =
        cloud.look(None, |scene| tree::statuses(scene, &cloud.whole(&whole), tree::StatusDetail::Standard));
    let top = tree["statuses"]["loadbalancer"].as_object().unwrap();
    assert_eq!(top.len(), 5);
    let pool = &top["listeners"][0]["pools"][0];
    assert_eq!(
        (&pool["health_monitor"]["type"], pool["members"].as_array().unwrap().len()),
        (&json!("TCP"), 2)
    );
}
