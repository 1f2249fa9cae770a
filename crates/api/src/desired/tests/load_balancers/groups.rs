//! Load balancers on routers and networks through groups.

use ovn::nb::LoadBalancerGroup;

use super::*;

#[test]
fn a_router_and_its_networks_share_a_group() {
    let mut scene = serving();
    balancer(&mut scene, LB2, NET3, SUB3, "30.0.0.10");
    let before = rows(&scene);
    assert!(before.table("Load_Balancer_Group").is_empty());
    scene.settings(|settings| settings.load_balancer_groups = true);
    let all = rows(&scene);
    let groups = all.table("Load_Balancer_Group");
    assert_eq!(groups.len(), 1, "{groups:?}");
    let (group, row) = groups[0];
    assert_eq!(row["name"], ovn::ident::name::router(id(R)));
    assert_eq!(all.members::<LoadBalancerGroup>(group.uuid, LoadBalancerGroup::LOAD_BALANCER), [id(LB1)]);
    assert_eq!(all.members::<LogicalRouter>(id(R), LogicalRouter::LOAD_BALANCER_GROUP), [group.uuid]);
    for network in [NET, NET2] {
        assert_eq!(
            all.members::<LogicalSwitch>(id(network), LogicalSwitch::LOAD_BALANCER_GROUP),
            [group.uuid]
        );
    }
    assert!(router_users(&all, R).is_empty() && users(&all, NET).is_empty() && users(&all, NET2).is_empty());
    assert_eq!(users(&all, NET3), [id(LB2)], "it is behind no router");
    assert_eq!(ls_refs(&all, LB1), ls_refs(&before, LB1));
    assert_eq!(key(&all, LB1, "lr_ref"), key(&before, LB1, "lr_ref"));
    // A further interface adds one reference, however many load balancers the group has.
    let all = rows(scene.interface(0x47, R, NET3, SUB3, "30.0.0.1"));
    assert_eq!(
        all.members::<LoadBalancerGroup>(group.uuid, LoadBalancerGroup::LOAD_BALANCER),
        [id(LB1), id(LB2)]
    );
    assert!(users(&all, NET3).is_empty());
    // The external network gets no group.
    let all = rows(scene.gateway(0x41, R, N1, S1, "192.0.2.100", &["ch1"]));
    assert!(all.members::<LogicalSwitch>(id(N1), LogicalSwitch::LOAD_BALANCER_GROUP).is_empty());
}
