//! `NB_Global`: our keys in the one row for the whole database.

use std::collections::BTreeMap;

use ovn::nb::NbGlobal;
use ovn::target::Part;
use ovn::text::neutron::{key, python_bool};
use reconcile::ObjectId;

use super::look::Look;
use super::map;

pub(super) fn compile(look: &Look<'_, '_>, to: &mut Part) {
    // northd creates the row.
    let Some(row) = look.nb_global() else { return };
    let settings = look.settings();
    // An explicit key in `northbound_options` wins.
    let mut options: BTreeMap<&str, String> =
        settings.tunnel_bfd().into_iter().map(|(name, value)| (name, value.to_string())).collect();
    options.extend(settings.northbound_options.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let global = NbGlobal {
        options: map(options),
        external_ids: map([(key::FIP_DISTRIBUTED, python_bool(settings.enable_distributed_floating_ip))]),
        ..Default::default()
    };
    let of = ObjectId::new("deployment", settings.owner.as_str());
    to.share(of, row, global, NbGlobal::OPTIONS | NbGlobal::EXTERNAL_IDS);
}
