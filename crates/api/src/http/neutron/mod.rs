//! Neutron's dialect on the wire: paths under `/v2.0`, `NeutronError` bodies, documents, extensions, quotas and tags.
//!
//! The table of nouns determines the paths, so there is one function for all of them instead of a route for each.

mod dispatch;
mod document;
pub mod extension;
pub(super) mod openapi;

use serde_json::{Value, json};

use super::answer::Answer;
use super::request::ApiRequest;
use super::target::{Base, Target};
use super::{Api, HttpDialect};
use crate::Fault;
use crate::dialect::Neutron;
use crate::resource::{Method, Noun, Page};
use crate::settings::Settings;

impl HttpDialect for Neutron {
    fn fault(&self, found: &Fault) -> Answer {
        fault(found)
    }

    fn open(&self, api: &Api, target: &Target, method: Option<Method>, base: &Base) -> Option<Answer> {
        document::open(target, method, base, api.store.trouble().is_none())
    }

    async fn answer<'a>(&'a self, request: ApiRequest<'a>) -> Result<Answer, Fault> {
        dispatch::answer(request).await
    }

    /// A tag or a host may have this name.
    fn keeps_suffix(&self, segments: &[String]) -> bool {
        let named = |of: &String| ["tags", "bindings"].contains(&of.as_str());
        segments.iter().rev().nth(1).is_some_and(named)
            || segments.last().is_some_and(|last| last == "openapi.json")
    }

    fn link_prefix<'s>(&self, settings: &'s Settings) -> Option<&'s str> {
        settings.network_link_prefix.as_deref()
    }
}

fn fault(Fault { status, kind, message }: &Fault) -> Answer {
    Answer::json(*status, &json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}))
}

/// A page. Neutron omits the key for links if there are none.
fn page(noun: &dyn Noun, page: &Page, base: &Base) -> Answer {
    let link = |(rel, query): &(&str, String)| json!({"rel": rel, "href": base.link(&format!("/v2.0/{}?{query}", noun.path()))});
    let links: Vec<Value> = page.links.iter().map(link).collect();
    let links = (!links.is_empty()).then_some(links.as_slice());
    Answer::page(noun.collection(), page.items.as_bytes(), links)
}
