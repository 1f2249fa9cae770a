//! Maps the path of a request to a function of a noun, and its outcome to a response.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{below_prefix, nothing, refused, settling};
use crate::http::answer::Answer;
use crate::http::request::{ApiRequest, ObjectPath};
use crate::http::target::Base;
use crate::resource::load_balancer::{self, LoadBalancers, tree};
use crate::resource::member::Members;
use crate::resource::quota::balancer;
use crate::resource::{ChangeRequest, CreateAnswer, Method, Noun, Page, RenderedObject, Scene, Verb, of};
use crate::{Fault, Txn};

/// Answers a request whose path is below `/v2`.
pub(super) async fn answer(request: ApiRequest<'_>) -> Result<Answer, Fault> {
    let caller = request.caller.of_load_balancers(request.api.balancer_roles);
    let request = ApiRequest { caller, ..request };
    let parts = request.target.parts();
    let parts = below_prefix(&parts).1.get(1..).unwrap_or_default();
    let (method, is_admin) = (request.method, request.caller.admin);
    let parts = match parts {
        ["octavia", "amphorae", rest @ ..] => return nothing::amphorae(rest, method, is_admin),
        ["lbaas", rest @ ..] | rest => rest,
    };
    match *parts {
        ["quotas", ref rest @ ..] => quotas(request, rest).await,
        ["pools", pool, "members"] => on_collection(request, of::<Members>(), Some(pool)).await,
        ["pools", pool, "members", id] => {
            on_object(request, of::<Members>(), ObjectPath { parent: Some(pool), id }).await
        }
        [path, ref rest @ ..] => {
            if let Some(answer) = nothing::answer(parts, method, &request.caller, &request.target.pairs) {
                return answer;
            }
            let is_path = |noun: &&&dyn Noun| noun.path() == path && noun.parent().is_none();
            let noun = load_balancer::NOUNS.iter().find(is_path).ok_or_else(Fault::no_such_path)?;
            match *rest {
                [] => on_collection(request, *noun, None).await,
                [id] => on_object(request, *noun, ObjectPath::top(id)).await,
                [id, ref rest @ ..] => on_action(request, *noun, id, rest).await,
            }
        }
        [] => Err(Fault::no_such_path()),
    }
}

/// A page. The key for links is always present; links repeat the path of the request.
fn page(noun: &dyn Noun, path: &str, page: &Page, base: &Base) -> Answer {
    let link =
        |(rel, query): &(&str, String)| json!({"rel": rel, "href": base.link(&format!("{path}?{query}"))});
    let links: Vec<Value> = page.links.iter().map(link).collect();
    Answer::page(noun.collection(), page.items.as_bytes(), Some(&links))
}

async fn on_collection(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    parent: Option<&str>,
) -> Result<Answer, Fault> {
    match request.method {
        Method::Get => {
            let path = format!("/{}", request.target.parts().join("/"));
            request.list(noun, parent, move |found, base| page(noun, &path, found, base)).await
        }
        Method::Post if noun.path() == of::<LoadBalancers>().path() => create_whole(request).await,
        Method::Post => {
            let (made, wait) = request.create(noun, parent).await?;
            Ok(wait.mark(match made {
                CreateAnswer::One(object) => Answer::object(201, noun.name(), &object),
                CreateAnswer::Many(objects) => Answer::objects(201, noun.collection(), &objects),
            }))
        }
        Method::Put if noun.verbs().contains(&Verb::ReplaceAll) => {
            Ok(request.replace_all(noun, parent).await?.mark(Answer::empty(202)))
        }
        _ if noun.verbs().contains(&Verb::ReplaceAll) => {
            Ok(refused(&[Method::Get, Method::Post, Method::Put]))
        }
        _ => Ok(refused(&[Method::Get, Method::Post])),
    }
}

/// Creates a load balancer and returns it with all its parts.
async fn create_whole(request: ApiRequest<'_>) -> Result<Answer, Fault> {
    let noun = of::<LoadBalancers>();
    let create = move |txn: &mut Txn, by: &ChangeRequest<'_>, body: &Value| {
        let objects = match noun.create(txn, by, body)? {
            CreateAnswer::One(object) => vec![object],
            CreateAnswer::Many(objects) => objects,
        };
        let now = txn.now();
        Ok(objects.into_iter().map(|object| with_parts(txn, by, now, object)).collect::<Vec<_>>())
    };
    let (mut objects, wait) = request.change(None, create).await?;
    let body = match objects.len() {
        1 => json!({noun.name(): objects.remove(0)}),
        _ => json!({noun.collection(): objects}),
    };
    Ok(wait.mark(Answer::json(201, &body)))
}

fn with_parts(txn: &Txn, by: &ChangeRequest<'_>, now: Timestamp, object: RenderedObject) -> Value {
    let mut object = object.into_value();
    let Some(id) = object["id"].as_str().and_then(|id| Uuid::try_parse(id).ok()) else { return object };
    let outside = txn.outside();
    let scene =
        Scene { world: txn, report: by.report, outside: &outside, caller: by.caller, now, parent: None };
    let (listeners, pools) = tree::expanded(&scene, id);
    object["listeners"] = listeners;
    object["pools"] = pools;
    object
}

async fn on_object(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    path: ObjectPath<'_>,
) -> Result<Answer, Fault> {
    match request.method {
        Method::Get => Ok(Answer::object(200, noun.name(), &request.show(noun, path).await?)),
        Method::Put => {
            let (object, wait) = request.update(noun, path).await?;
            Ok(wait.mark(Answer::object(200, noun.name(), &object)))
        }
        Method::Delete => {
            let (api, whole) = (request.api, settling::whole_of_part(request.api, noun, path.id));
            let wait = request.delete(noun, path).await?;
            if let Some(whole) = whole {
                settling::wait(api, whole).await;
            }
            Ok(wait.mark(Answer::empty(204)))
        }
        Method::Post => Ok(refused(&[Method::Get, Method::Put, Method::Delete])),
    }
}

async fn on_action(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    id: &str,
    rest: &[&str],
) -> Result<Answer, Fault> {
    let mut allowed = Vec::new();
    for action in noun.actions() {
        let Some(args) = action.matches(rest) else { continue };
        if action.method != request.method {
            allowed.push(action.method);
            continue;
        }
        let (reply, object, wait) = request.act(noun, action, ObjectPath::top(id), &args).await?;
        return Ok(wait.mark(Answer::reply(action.status, noun.name(), reply, object.as_ref())));
    }
    if allowed.is_empty() { Err(Fault::no_such_path()) } else { Ok(refused(&allowed)) }
}

async fn quotas(request: ApiRequest<'_>, rest: &[&str]) -> Result<Answer, Fault> {
    let method = request.method;
    if let ([project], Method::Put) = (rest, method) {
        let project = (*project).to_owned();
        let set = move |txn: &mut Txn, by: &ChangeRequest<'_>, body: &Value| {
            balancer::update(txn, by.caller, &project, body)
        };
        let (quota, wait) = request.change(None, set).await?;
        return Ok(wait.mark(Answer::json(202, &quota)));
    }
    if let ([project], Method::Delete) = (rest, method) {
        let project = (*project).to_owned();
        let reset =
            move |txn: &mut Txn, by: &ChangeRequest<'_>, _: &Value| balancer::reset(txn, by.caller, &project);
        return Ok(request.change(None, reset).await?.1.mark(Answer::empty(202)));
    }
    let sight = request.sight(None).await?;
    let (world, settings) = (sight.scene().world, &sight.scene().outside.settings);
    let answer = match *rest {
        [] => balancer::list(world, settings, &request.caller),
        ["defaults"] | [_, "default"] => balancer::defaults(settings),
        [project] => balancer::show(world, settings, &request.caller, project)?,
        _ => return Err(Fault::no_such_path()),
    };
    Ok(match (method, rest) {
        (Method::Get, _) => Answer::json(200, &answer),
        (_, [_]) => refused(&[Method::Get, Method::Put, Method::Delete]),
        _ => refused(&[Method::Get]),
    })
}
