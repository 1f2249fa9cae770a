//! Lists: filters, order, pages. The same rules for every noun.
//!
//! ```text
//! candidates (links)  ->  visible  ->  filters  ->  order  ->  page  ->  views
//! ```
//!
//! Filters and the order compute only the attributes that they need. Whole views are rendered for the page alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod filter;
mod order;
mod query;

use std::fmt::Display;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{Attribute, Computed, RenderedList, Resource, Scene, Selection, View, computed};
use crate::dialect::Refusal;
use crate::world::{Entity, Link};
use order::{Order, Rank};

pub use filter::Filters;
pub use query::{Direction, LinkRule, Query, QueryGrammar, SortGrammar};

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The rendered objects.
    pub items: RenderedList,
    /// The links to neighbouring pages, as (`next` or `previous`, query string).
    pub links: Vec<(&'static str, String)>,
}

/// The list of a stored noun, limited to the objects inside of `parent` if the noun has one.
pub(super) fn stored<R: Resource>(
    scene: &Scene<'_>,
    parent: Option<Uuid>,
    query: &Query,
) -> Result<Page, Refusal> {
    let filters = Filters::new(R::attributes(), query)?;
    let inside = R::PARENT.zip(parent);
    let visible = |entity: &&Arc<R::Entity>| {
        R::visible(entity, scene.world, scene.caller)
            && inside.is_none_or(|(noun, parent)| (noun.of)(entity) == parent)
    };
    let table = scene.world.table::<R::Entity>();
    let found = reach::<R>(scene, &filters).or_else(|| {
        let (_, parent) = inside?;
        let link = Link::Inside(<R::Entity as Entity>::KIND, parent);
        Some(scene.world.linked::<R::Entity>(link).collect())
    });
    let items: Vec<&Arc<R::Entity>> = match found {
        Some(found) => found.into_iter().filter(visible).collect(),
        None => table.iter().filter(visible).collect(),
    };
    let marker = |id: &str| {
        let uuid = Uuid::try_parse(id).ok();
        uuid.and_then(|uuid| table.get(&uuid))
            .filter(visible)
            .ok_or_else(|| Refusal::BadMarker(id.to_owned()))
    };
    let view = |entity: &&Arc<R::Entity>, view: &mut View<'_>| R::view(entity, scene, view);
    let list = List { attributes: R::attributes(), scene, query, filters, view };
    list.page(items, |entity| entity.key(), marker)
}

/// The list of a computed noun.
pub(super) fn computed<C: Computed>(scene: &Scene<'_>, query: &Query) -> Result<Page, Refusal> {
    let mut filters = Filters::new(C::attributes(), query)?;
    let key = C::KEY.unwrap_or("name");
    let text = |row: &serde_json::Map<String, Value>| {
        row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut items = C::listed(scene, &mut filters);
    items.sort_by_key(text);
    let rows = items.clone();
    let marker = |id: &str| {
        let found = rows.iter().find(|row| text(row) == id).cloned();
        found.ok_or_else(|| Refusal::BadMarker(id.to_owned()))
    };
    let view = |row: &serde_json::Map<String, Value>, view: &mut View<'_>| {
        computed::write(row, C::attributes(), view);
    };
    let list = List { attributes: C::attributes(), scene, query, filters, view };
    list.page(items, text, marker)
}

/// The candidates of the filters, in order of id; `None` if all objects are.
fn reach<'w, R: Resource>(scene: &Scene<'w>, filters: &Filters) -> Option<Vec<&'w Arc<R::Entity>>> {
    let world = scene.world;
    let kind = <R::Entity as Entity>::KIND;
    let mut found: Vec<_> = if let Some(ids) = filters.uuids("id") {
        ids.iter().filter_map(|id| world.get::<R::Entity>(id)).collect()
    } else {
        let all = |link: &dyn Fn(&str) -> Link, values: &[String]| {
            values.iter().map(|value| link(value)).collect::<Vec<_>>()
        };
        let links = R::reach(filters)
            .or_else(|| {
                filters.values("name").map(|names| all(&|name| Link::Named(kind, name.into()), names))
            })
            .or_else(|| {
                let projects = filters.values("project_id").or_else(|| filters.values("tenant_id"))?;
                Some(all(&|project| Link::OwnedBy(kind, project.into()), projects))
            })?;
        links.into_iter().flat_map(|link| world.linked::<R::Entity>(link)).collect()
    };
    found.sort_by_key(|entity| entity.key());
    found.dedup_by_key(|entity| entity.key());
    Some(found)
}

struct List<'a, V> {
    attributes: &'static [Attribute],
    scene: &'a Scene<'a>,
    query: &'a Query,
    filters: Filters,
    view: V,
}

impl<V> List<'_, V> {
    /// The page of a query. `items` are in order of `key`.
    fn page<T, K: Ord + Display>(
        &self,
        mut items: Vec<T>,
        key: impl Fn(&T) -> K,
        marker: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Result<Page, Refusal>
    where
        V: Fn(&T, &mut View<'_>),
    {
        let caller = self.scene.caller;
        if !self.filters.is_empty() {
            let needed = Selection::only(self.attributes, caller, self.filters.names());
            items.retain(|item| self.filters.admit(&View::values(&needed, |view| (self.view)(item, view))));
        }
        let order = Order::new(self.attributes, caller, self.query)?;
        let rank = |item: &T| order.rank(|view| (self.view)(item, view));
        let mut ranked: Vec<_> = items.into_iter().map(|item| (rank(&item), key(&item), item)).collect();
        if !order.is_by_id() {
            ranked.sort_by(|(a, ida, _), (b, idb, _)| order.compare(a, b).then_with(|| order.ids(ida, idb)));
        } else if order.is_descending() {
            ranked.reverse();
        }

        let limit = self.query.page_size(self.scene.outside.settings.pagination_max_limit);
        let mut range = 0..ranked.len();
        let marked = limit.is_some() || self.query.heeds_lone_marker();
        if let Some(id) = self.query.marker.as_ref().filter(|_| marked) {
            let item = marker(id)?;
            let (rank, id) = (rank(&item), key(&item));
            let before = |(other, other_id, _): &(Vec<Rank>, K, T)| {
                order.compare(other, &rank).then_with(|| order.ids(other_id, &id))
            };
            if self.query.page_reverse {
                range.end = ranked.partition_point(|item| before(item).is_lt());
            } else {
                range.start = ranked.partition_point(|item| before(item).is_le());
            }
        }
        if let Some(limit) = limit {
            if self.query.page_reverse {
                range.start = range.start.max(range.end.saturating_sub(limit));
            } else {
                range.end = range.end.min(range.start.saturating_add(limit));
            }
        }
        let page = &ranked[range];
        let links = match limit {
            Some(limit) => {
                let ends = page.first().zip(page.last()).map(|((_, first, _), (_, last, _))| (first, last));
                self.query.links(page.len() < limit, ends)
            }
            None => Vec::new(),
        };
        let selection = Selection::new(self.attributes, caller, &self.query.fields);
        let mut items = RenderedList::with_room(page.len());
        for (_, _, item) in page {
            items.push(&selection, |view| (self.view)(item, view));
        }
        Ok(Page { items, links })
    }
}

#[cfg(test)]
mod tests;
