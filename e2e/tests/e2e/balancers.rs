//! Load balancers that are created over the API, tested with packets: `meridian server` writes the Northbound, VMs serve, and clients
//! connect from everywhere.

mod clients;
mod health;
mod site;
mod spine;

use lab::Test;

pub(crate) fn tests() -> Vec<Test> {
    let test = |name, sentence, run| Test::new(name, sentence, &[], run).meridian();
    vec![
        test(
            "balancers::clients_everywhere_are_served",
            "clients in the VIP's own subnet, in another subnet of the router and outside, by floating IP and routed, reach both members by TCP and UDP, IPv4 and IPv6, and members see who they are",
            clients::everywhere,
        ),
        test(
            "balancers::connections_are_shared_as_asked",
            "weights are seen in the number of connections, a client of SOURCE_IP, IPv4 or IPv6, or of session persistence stays with its member while others have the other one, a drained member keeps its connection and gets no new one",
            clients::shares,
        ),
        test(
            "balancers::allowed_cidrs_keep_others_out",
            "clients from elsewhere than a listener allows are dropped, inside, by floating IP and routed, and other listeners serve them",
            clients::allowed,
        ),
        test(
            "balancers::clients_arrive_at_two_gateways",
            "clients outside reach both members through either of two gateways of the router, which are on two chassis",
            clients::multihomed,
        ),
        test(
            "balancers::groups_serve_the_same_clients",
            "with a group per router, clients are served as without, and a server that starts without groups replaces them",
            clients::groups,
        ),
        test(
            "balancers::scenario_42_members_have_floating_ips_of_their_own",
            "a member with a distributed floating IP serves clients of the load balancer's floating IP, because its own becomes central, and is still reached by it",
            clients::members_with_floating_ips,
        ),
        test(
            "balancers::scenario_44_45_a_member_dies_and_comes_back",
            "health monitors, by TCP and UDP, take a member that dies out and back in, and the API shows it; the backup serves while the others are gone",
            health::dies,
        ),
        Test::new(
            "balancers::spine_reaches_the_vip_by_bgp",
            "the BGP agents announce the VIP and its floating IP of a load balancer made over the API, and the spine is served by its members",
            &[lab::need::Need::Vrf, lab::need::Need::Dummy],
            spine::reaches,
        )
        .meridian(),
    ]
}
