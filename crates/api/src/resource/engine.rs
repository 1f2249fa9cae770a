//! The rules that hold for every noun, with the noun's type forgotten.
//!
//! Order of a change: is there such an object that the caller may see (404), may the caller change it (403), is it still at
//! the expected revision (412), is the body in order (400), may the caller set these attributes (403), and only then the
//! noun's own function. Everything happens in one [`Txn`], so a bulk request is all or nothing.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::list::{self, Page, Query};
use super::{
    Act, Action, Attribute, Call, Checked, Method, Reply, Resource, Scene, Selection, Shown, View, Who,
    absent, quota, tags,
};
use crate::policy::Rule;
use crate::report::Report;
use crate::world::{Entity, Outside};
use crate::{Caller, Fault, Txn, World};

/// What can be done with a noun besides looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `POST` on the collection.
    Create,
    /// `PUT` on an object.
    Update,
    /// `DELETE` on an object.
    Delete,
}

/// Who changes something, and on which condition.
#[derive(Clone, Copy, Debug)]
pub struct Precondition<'a> {
    /// Who.
    pub caller: &'a Caller,
    /// What OVN reports back; answers show it.
    pub report: &'a Report,
    /// The revision that the object must have.
    pub revision: Option<u64>,
}

impl<'a> Precondition<'a> {
    /// Somebody, on no condition.
    pub fn none(caller: &'a Caller, report: &'a Report) -> Self {
        Precondition { caller, report, revision: None }
    }

    pub(super) fn scene<'t>(&'t self, world: &'t World, outside: &'t Outside) -> Scene<'t> {
        Scene { world, report: self.report, outside, caller: self.caller }
    }
}

/// What a create request answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// The one object.
    One(Shown),
    /// All objects of a bulk request, in its order.
    Many(Vec<Shown>),
}

/// Something that runs before a list is read.
pub type Preparation = fn(&mut Txn, &Caller) -> Result<(), Fault>;

/// A noun with its type forgotten.
pub trait Noun: Send + Sync {
    /// In bodies.
    fn name(&self) -> &'static str;
    /// In answers to lists.
    fn collection(&self) -> &'static str;
    /// In paths.
    fn path(&self) -> &'static str;
    /// Its attributes.
    fn attributes(&self) -> &'static [Attribute];
    /// What can be done with it.
    fn verbs(&self) -> &'static [Verb];
    /// Whether single ones can be asked for.
    fn single(&self) -> bool {
        true
    }
    /// Whether it has labels.
    fn tagged(&self) -> bool;
    /// What else can be asked of one.
    fn actions(&self) -> &'static [Action];
    /// The rules for this noun, each with its name in Neutron's policy.
    fn rules(&self) -> Vec<(String, Rule)> {
        Vec::new()
    }
    /// What has to be made before the caller's list can be read, if anything.
    fn prepare(&self, world: &World, caller: &Caller) -> Option<Preparation>;

    /// What a list shows.
    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault>;
    /// One object, cut down to `fields` if there are any.
    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<Shown, Fault>;
    /// Makes one or, if the body has the collection's name, many.
    fn create(&self, txn: &mut Txn, who: &Precondition<'_>, body: &Value) -> Result<Changed, Fault>;
    /// Changes one.
    fn update(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str, body: &Value) -> Result<Shown, Fault>;
    /// Removes one.
    fn delete(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str) -> Result<(), Fault>;
    /// Answers an action that looks.
    fn look(&self, scene: &Scene<'_>, action: &Action, call: Asked<'_>) -> Result<Reply, Fault>;
    /// Runs an action that changes. The object is shown back if the action says so.
    fn act(
        &self,
        txn: &mut Txn,
        who: &Precondition<'_>,
        action: &Action,
        call: Asked<'_>,
    ) -> Result<(Reply, Option<Shown>), Fault>;
    /// The labels of one.
    fn tags(&self, scene: &Scene<'_>, id: &str, tag: Option<&str>) -> Result<(u16, Reply), Fault>;
    /// Changes the labels of one.
    fn set_tags(
        &self,
        txn: &mut Txn,
        who: &Precondition<'_>,
        method: Method,
        call: Asked<'_>,
    ) -> Result<(u16, Reply), Fault>;
}

/// What a request on one object says.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The object's id, as the path has it.
    pub id: &'a str,
    /// What stood for each `*` of an action's path.
    pub args: &'a [&'a str],
    /// The body; `null` if there was none.
    pub body: &'a Value,
}

impl<'a> Asked<'a> {
    pub(super) fn by(self, caller: &'a Caller, id: Uuid) -> Call<'a> {
        Call { caller, id, name: self.id, args: self.args, body: self.body }
    }
}

struct Of<R>(PhantomData<fn() -> R>);

/// The noun of a resource.
pub const fn of<R: Resource>() -> &'static dyn Noun {
    const { &Of::<R>(PhantomData) }
}

/// The one object that a body is about: what stands under the noun's name.
pub(super) fn unwrap<'b>(name: &str, body: &'b Value) -> Result<&'b Map<String, Value>, Fault> {
    let body = body.as_object().ok_or_else(invalid_body)?;
    match body.get(name) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(invalid_body()),
        None => Err(Fault::bad(format!("Unable to find '{name}' in request body"))),
    }
}

fn invalid_body() -> Fault {
    Fault::bad("Body contains invalid data")
}

/// An object that the caller may see.
fn seen<'w, R: Resource>(
    world: &'w World,
    caller: &Caller,
    id: &str,
) -> Result<(Uuid, &'w Arc<R::Entity>), Fault> {
    let uuid = Uuid::try_parse(id).ok();
    uuid.and_then(|uuid| world.get::<R::Entity>(&uuid).map(|entity| (uuid, entity)))
        .filter(|(_, entity)| R::visible(entity, world, caller))
        .ok_or_else(|| absent::<R>(id))
}

/// An object that the caller may change and that has the expected revision.
fn changeable<R: Resource>(
    world: &World,
    who: &Precondition<'_>,
    id: &str,
    (rule, name): (Rule, impl FnOnce() -> String),
) -> Result<(Uuid, Arc<R::Entity>), Fault> {
    let (id, entity) = seen::<R>(world, who.caller, id)?;
    if !rule.permits(who.caller, &R::target(entity, world), None) {
        return Err(Fault::forbidden(name()));
    }
    expect::<R>(who, entity)?;
    Ok((id, Arc::clone(entity)))
}

fn expect<R: Resource>(who: &Precondition<'_>, entity: &R::Entity) -> Result<(), Fault> {
    match (who.revision, R::standard(entity)) {
        (Some(expected), Some(standard)) if standard.revision != expected => {
            Err(Fault::revised(expected, standard.revision))
        }
        _ => Ok(()),
    }
}

/// Counts the change if the object is another than before and nobody counted it yet.
fn count<R: Resource>(txn: &mut Txn, id: Uuid, before: &R::Entity) {
    let revision = |entity: &R::Entity| R::standard(entity).map(|standard| standard.revision);
    let changed = |after: &Arc<R::Entity>| **after != *before && revision(after) == revision(before);
    if txn.get::<R::Entity>(&id).is_some_and(changed) {
        super::touch::<R>(txn, id);
    }
}

fn shown<R: Resource>(txn: &Txn, who: &Precondition<'_>, id: Uuid) -> Result<Shown, Fault> {
    let outside = txn.outside();
    let entity = txn.get::<R::Entity>(&id).ok_or_else(|| absent::<R>(id))?;
    let selection = Selection::new(R::attributes(), who.caller, &[]);
    let mut view = View::new(&selection);
    R::view(entity, &who.scene(txn, &outside), &mut view);
    Ok(view.finish())
}

/// A create request, checked as far as it can be without looking at the world.
fn check_new<R: Resource>(who: &Precondition<'_>, body: &Map<String, Value>) -> Result<Checked, Fault> {
    let new = Checked::create(R::attributes(), who.caller, body)?;
    // What belongs to nobody would be under no quota, and nobody could delete it but an administrator.
    if new.project().is_empty() {
        return Err(Fault::bad(
            "An object needs a project: neither the credentials nor 'project_id' in the request name one",
        ));
    }
    Ok(new)
}

/// Makes one, if the caller may make such a one.
fn make<R: Resource>(txn: &mut Txn, who: &Precondition<'_>, new: &Checked) -> Result<Uuid, Fault> {
    let target = R::target_of_new(txn, who.caller, new)?;
    if !R::CREATE.permits(who.caller, &target, None) {
        return Err(Fault::forbidden(format!("create_{}", R::NAME)));
    }
    new.permit_create(R::NAME, R::attributes(), who.caller, &target)?;
    R::create(txn, who.caller, new)
}

/// Checks the elements of a bulk request, and that all of them together are within their projects' limits, before the first is made.
fn check_many<R: Resource>(
    txn: &Txn,
    who: &Precondition<'_>,
    elements: &[Value],
) -> Result<Vec<Checked>, Fault> {
    let most = txn.outside().settings.max_bulk_size;
    match elements.len() {
        0 => return Err(Fault::bad("Resources required")),
        count if count > most => {
            let text = format!(
                "A request may create at most {most} objects, and this one has {count}: send several"
            );
            return Err(Fault::bad(text));
        }
        _ => {}
    }
    let check = |element: &Value| {
        let element = element.as_object().ok_or_else(invalid_body)?;
        match element.get(R::NAME) {
            Some(Value::Object(inner)) if element.len() == 1 => check_new::<R>(who, inner),
            _ => check_new::<R>(who, element),
        }
    };
    let checked: Vec<Checked> = elements.iter().map(check).collect::<Result<_, _>>()?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for new in &checked {
        *counts.entry(new.project()).or_default() += 1;
    }
    for (project, count) in counts {
        quota::check(txn, R::Entity::KIND, project, count)?;
    }
    Ok(checked)
}

/// Whether the caller may run an action on an object that it sees.
fn may_act<R: Resource>(
    action: &Action,
    entity: &R::Entity,
    world: &World,
    caller: &Caller,
) -> Result<(), Fault> {
    let target = R::target(entity, world);
    let may = match action.who {
        Who::Nobody => true,
        Who::Owner => R::UPDATE.permits(caller, &target, None),
        Who::By(rule) => rule.permits(caller, &target, None),
    };
    if may { Ok(()) } else { Err(Fault::forbidden(action.rule)) }
}

impl<R: Resource> Noun for Of<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }
    fn collection(&self) -> &'static str {
        R::COLLECTION
    }
    fn path(&self) -> &'static str {
        R::PATH
    }
    fn attributes(&self) -> &'static [Attribute] {
        R::attributes()
    }
    fn verbs(&self) -> &'static [Verb] {
        R::VERBS
    }
    fn tagged(&self) -> bool {
        R::TAGGED
    }
    fn actions(&self) -> &'static [Action] {
        R::actions()
    }
    fn rules(&self) -> Vec<(String, Rule)> {
        let verb = |verb: Verb, word: &str, rule: Rule| {
            R::VERBS.contains(&verb).then(|| (format!("{word}_{}", R::NAME), rule))
        };
        let mut rules = vec![(format!("get_{}", R::NAME), R::GET)];
        rules.extend(verb(Verb::Create, "create", R::CREATE));
        rules.extend(verb(Verb::Update, "update", R::UPDATE));
        rules.extend(verb(Verb::Delete, "delete", R::DELETE));
        rules.extend(R::TAGGED.then(|| (format!("update_{}:tags", R::NAME), R::TAGS)));
        rules
    }
    fn prepare(&self, world: &World, caller: &Caller) -> Option<Preparation> {
        R::prepare(world, caller)
    }

    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault> {
        list::stored::<R>(scene, query)
    }

    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<Shown, Fault> {
        let (_, entity) = seen::<R>(scene.world, scene.caller, id)?;
        let selection = Selection::new(R::attributes(), scene.caller, fields);
        let mut view = View::new(&selection);
        R::view(entity, scene, &mut view);
        Ok(view.finish())
    }

    fn create(&self, txn: &mut Txn, who: &Precondition<'_>, body: &Value) -> Result<Changed, Fault> {
        if !R::CREATE.may_permit(who.caller) {
            return Err(Fault::forbidden(format!("create_{}", R::NAME)));
        }
        let Some(many) = body.as_object().ok_or_else(invalid_body)?.get(R::COLLECTION) else {
            let new = check_new::<R>(who, unwrap(R::NAME, body)?)?;
            let id = make::<R>(txn, who, &new)?;
            return shown::<R>(txn, who, id).map(Changed::One);
        };
        let elements = many.as_array().ok_or_else(invalid_body)?;
        let checked = check_many::<R>(txn, who, elements)?;
        let ids: Vec<Uuid> = checked.iter().map(|new| make::<R>(txn, who, new)).collect::<Result<_, _>>()?;
        // Shown when all are there: a later one may have changed an earlier one.
        ids.into_iter().map(|id| shown::<R>(txn, who, id)).collect::<Result<_, _>>().map(Changed::Many)
    }

    fn update(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str, body: &Value) -> Result<Shown, Fault> {
        let (id, before) = changeable::<R>(txn, who, id, (R::UPDATE, || format!("update_{}", R::NAME)))?;
        let change = Checked::update(R::attributes(), unwrap(R::NAME, body)?)?;
        change.permit_update(R::NAME, R::attributes(), who.caller, &R::target(&before, txn))?;
        R::update(txn, who.caller, id, &change)?;
        if let Some(description) = change.text("description") {
            txn.edit::<R::Entity>(&id, |entity| {
                if let Some(standard) = R::standard_mut(entity) {
                    description.clone_into(&mut standard.description);
                }
            });
        }
        count::<R>(txn, id, &before);
        shown::<R>(txn, who, id)
    }

    fn delete(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str) -> Result<(), Fault> {
        let (id, _) = changeable::<R>(txn, who, id, (R::DELETE, || format!("delete_{}", R::NAME)))?;
        R::delete(txn, who.caller, id)
    }

    fn look(&self, scene: &Scene<'_>, action: &Action, asked: Asked<'_>) -> Result<Reply, Fault> {
        let (id, entity) = seen::<R>(scene.world, scene.caller, asked.id)?;
        may_act::<R>(action, entity, scene.world, scene.caller)?;
        match action.act {
            Act::Read(read) => read(scene, &asked.by(scene.caller, id)),
            Act::Change(_) => Err(Fault::not_allowed()),
        }
    }

    fn act(
        &self,
        txn: &mut Txn,
        who: &Precondition<'_>,
        action: &Action,
        asked: Asked<'_>,
    ) -> Result<(Reply, Option<Shown>), Fault> {
        let (id, before) = seen::<R>(txn, who.caller, asked.id)?;
        may_act::<R>(action, before, txn, who.caller)?;
        expect::<R>(who, before)?;
        let before = Arc::clone(before);
        let Act::Change(change) = action.act else { return Err(Fault::not_allowed()) };
        let reply = change(txn, &asked.by(who.caller, id))?;
        count::<R>(txn, id, &before);
        let object = if reply == Reply::Object { Some(shown::<R>(txn, who, id)?) } else { None };
        Ok((reply, object))
    }

    fn tags(&self, scene: &Scene<'_>, id: &str, tag: Option<&str>) -> Result<(u16, Reply), Fault> {
        let (_, entity) = seen::<R>(scene.world, scene.caller, id)?;
        let mut tags = R::standard(entity).map(|standard| standard.tags.clone()).unwrap_or_default();
        tags::apply(&mut tags, id, Method::Get, tag, &Value::Null)
    }

    fn set_tags(
        &self,
        txn: &mut Txn,
        who: &Precondition<'_>,
        method: Method,
        asked: Asked<'_>,
    ) -> Result<(u16, Reply), Fault> {
        let (id, before) =
            changeable::<R>(txn, who, asked.id, (R::TAGS, || format!("update_{}_tags", R::PATH)))?;
        let mut tags = R::standard(&before).map(|standard| standard.tags.clone()).unwrap_or_default();
        let answer = tags::apply(&mut tags, asked.id, method, asked.args.first().copied(), asked.body)?;
        txn.edit::<R::Entity>(&id, |entity| {
            if let Some(standard) = R::standard_mut(entity) {
                standard.tags = tags;
            }
        });
        count::<R>(txn, id, &before);
        Ok(answer)
    }
}
