//! The measured operations, the same for both clouds.

use anyhow::Result;
use serde_json::json;

use super::Sizes;
use super::report::Column;
use super::site::Site;

/// Milliseconds that the issue allows for the creation of a load balancer, a batch of 100 members, and a cascade over them.
const GOALS: [f64; 3] = [20.0, 100.0, 50.0];
/// Milliseconds and kilobytes for a batch of 1,000 members.
const LARGE_GOALS: (f64, f64) = (150.0, 500.0);

pub(super) fn measure(site: &Site, sizes: Sizes, column: &mut Column<'_>) -> Result<()> {
    for _ in 0..sizes.rounds {
        let mut balancer = String::new();
        let cost = site.cost(|| {
            balancer = site.create_balancer()?;
            site.wait_active(&balancer)
        })?;
        column.add("create a load balancer", &cost, 1, Some(GOALS[0]));
        site.ask("DELETE", &format!("loadbalancers/{balancer}"), None)?;
        site.wait_gone(&balancer)?;

        let (balancer, pool) = site.create_tree()?;
        let cost = site.cost(|| put_members(site, &balancer, &pool, sizes.batch))?;
        column.add(&format!("{} members in a batch", sizes.batch), &cost, 1, Some(GOALS[1]));
        let cost = site.cost(|| {
            site.ask("DELETE", &format!("loadbalancers/{balancer}?cascade=true"), None)?;
            site.wait_gone(&balancer)
        })?;
        column.add(&format!("delete with {} members (cascade)", sizes.batch), &cost, 1, Some(GOALS[2]));

        let Some(large) = sizes.large else { continue };
        let (balancer, pool) = site.create_tree()?;
        let what = format!("{large} members in a batch");
        let cost = site.cost(|| put_members(site, &balancer, &pool, large))?;
        column.add(&what, &cost, 1, Some(LARGE_GOALS.0));
        column.add_growth(&what, &cost, Some(LARGE_GOALS.1));
        site.ask("DELETE", &format!("loadbalancers/{balancer}?cascade=true"), None)?;
        site.wait_gone(&balancer)?;
    }
    for count in [Some(sizes.single), sizes.large].into_iter().flatten() {
        let (balancer, pool) = site.create_tree()?;
        let what = format!("{count} members one by one");
        let cost = site.cost(|| {
            (0..count).try_for_each(|n| {
                site.create(&format!("pools/{pool}/members"), "member", site.member(n))?;
                site.wait_active(&balancer)
            })
        })?;
        column.add(&what, &cost, count, None);
        column.add_growth(&what, &cost, None);
        site.ask("DELETE", &format!("loadbalancers/{balancer}?cascade=true"), None)?;
        site.wait_gone(&balancer)?;
    }
    Ok(())
}

/// Gives a pool its members in one request.
fn put_members(site: &Site, balancer: &str, pool: &str, count: usize) -> Result<()> {
    let members: Vec<_> = (0..count).map(|n| site.member(n)).collect();
    site.ask("PUT", &format!("pools/{pool}/members"), Some(&json!({ "members": members })))?;
    site.wait_active(balancer)
}
