//! Manual changes by an administrator: pins, and rebalancing.

use super::*;

#[test]
fn pins_take_their_place_and_survive_until_their_chassis_cannot_carry_the_port() {
    let mut cloud = Cloud::new(fleet(3));
    let port = cloud.routers(1, &[N1])[0][0];
    let entity = Port::clone(cloud.world.get::<Port>(&port).unwrap());
    let group = cloud.group(port);
    let last = group[2].clone();
    let (world, outside) = (cloud.world.clone(), cloud.outside.clone());
    assert_eq!(pin(&world, &outside, &entity, &last, Some(3)), Err(PinError::PriorityTaken));
    assert_eq!(pin(&world, &outside, &entity, "nowhere", None), Err(PinError::NotEligible));
    assert_eq!(prioritise(&world, &outside, &entity, "nowhere", 9), Err(PinError::NotInGroup));
    let pinned = pin(&world, &outside, &entity, &last, Some(100)).unwrap();
    assert_eq!(pinned.chassis[0], Placed { chassis: last.clone(), priority: 100, pinned: true });
    assert_eq!(pinned.chassis[1..].iter().map(|c| c.priority).collect::<Vec<_>>(), [2, 1]);
    cloud.change(|txn| drop(txn.put(pinned)));
    cloud.becomes(fleet(5));
    assert_eq!(cloud.primary(port), last);
    assert_eq!(cloud.group(port).len(), 5);
    // Another chassis of the group disappears: the pin stays.
    cloud.becomes(fleet(5).into_iter().filter(|chassis| chassis.name != group[0]).collect());
    assert_eq!(cloud.primary(port), last);
    assert!(cloud.world.get::<Placement>(&port).unwrap().chassis[0].pinned);
    // The pinned chassis disappears and returns as an ordinary one.
    cloud.becomes(fleet(5).into_iter().filter(|chassis| chassis.name != last).collect());
    cloud.becomes(fleet(5));
    assert_eq!(cloud.group(port)[4], last);
    assert!(!cloud.world.get::<Placement>(&port).unwrap().chassis[4].pinned);
}

#[test]
fn a_pin_in_a_full_group_drives_out_the_last_one_that_is_not_pinned() {
    let mut cloud = Cloud::new(fleet(7));
    let port = cloud.routers(1, &[N1])[0][0];
    let entity = Port::clone(cloud.world.get::<Port>(&port).unwrap());
    let outside = cloud.outside.clone();
    for chassis in fleet(7) {
        let pinned = pin(&cloud.world, &outside, &entity, &chassis.name, None);
        let count = cloud.group(port).len();
        assert_eq!(count, MAX_CHASSIS);
        match pinned {
            Ok(placement) => {
                assert!(
                    placement.chassis.iter().any(|placed| placed.chassis == chassis.name && placed.pinned)
                );
                cloud.change(|txn| drop(txn.put(placement)));
            }
            Err(error) => assert_eq!(error, PinError::Full),
        }
    }
    assert_eq!(pin(&cloud.world, &outside, &entity, "ch7", None), Err(PinError::Full));
}

#[test]
fn a_chassis_that_is_unpinned_goes_to_the_end_or_out() {
    let mut cloud = Cloud::new(fleet(3));
    let port = cloud.routers(1, &[N1])[0][0];
    let entity = Port::clone(cloud.world.get::<Port>(&port).unwrap());
    let first = cloud.primary(port);
    let after = unpin(&cloud.world, &cloud.outside, &entity, &first, 1).unwrap();
    assert_eq!(after.chassis[2].chassis, first);
    assert_eq!(unpin(&cloud.world, &cloud.outside, &entity, "nowhere", 1), Err(PinError::NotInGroup));
    cloud.becomes(fleet(7));
    let first = cloud.primary(port);
    let after = unpin(&cloud.world, &cloud.outside, &entity, &first, 1).unwrap();
    assert_eq!(after.chassis.len(), MAX_CHASSIS);
    assert!(after.chassis.iter().all(|placed| placed.chassis != first));
}

#[test]
fn rebalancing_moves_only_what_is_above_the_fair_share() {
    let mut cloud = Cloud::new(fleet(2));
    let routers = cloud.routers(20, &[N1]);
    assert_eq!(rebalance(&cloud.world, &cloud.outside), []);
    cloud.becomes(fleet(4));
    assert_eq!(cloud.counts(0)["ch4"], 0);
    let moved = rebalance(&cloud.world, &cloud.outside);
    assert_eq!(moved.len(), 10, "5 from each of the two, and not one more");
    cloud.change(|txn| moved.into_iter().for_each(|placement| drop(txn.put(placement))));
    assert!(cloud.counts(0).values().all(|count| *count == 5), "{:?}", cloud.counts(0));
    assert!(routers.iter().flatten().all(|port| cloud.group(*port).len() == 4));
    assert_eq!(rebalance(&cloud.world, &cloud.outside), []);
}

#[test]
fn rebalancing_keeps_siblings_apart_and_pins_where_they_are() {
    let mut cloud = Cloud::new(fleet(2));
    let routers = cloud.routers(10, &[N1, N1]);
    let pinned = routers[0][0];
    let entity = Port::clone(cloud.world.get::<Port>(&pinned).unwrap());
    let at = cloud.primary(pinned);
    let pin = pin(&cloud.world, &cloud.outside, &entity, &at, None).unwrap();
    cloud.change(|txn| drop(txn.put(pin)));
    cloud.becomes(fleet(4));
    let moved = rebalance(&cloud.world, &cloud.outside);
    cloud.change(|txn| moved.into_iter().for_each(|placement| drop(txn.put(placement))));
    assert_eq!(cloud.primary(pinned), at);
    assert_eq!(cloud.together(&routers), 0);
    assert!(cloud.spread(0) <= 1, "{:?}", cloud.counts(0));
}
