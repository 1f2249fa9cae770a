//! Stored nouns: how the engine finds, checks, changes and renders their objects.
//!
//! Neutron's dialect checks a change in this order. Does the object exist for the caller (404)? May the caller change it (403)? Does it
//! have the expected revision (412)? Is the body valid (400)? May the caller set these attributes (403)? Then the noun's own function runs.
//! Octavia's dialect checks the body first.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::engine::{ActionRequest, ChangeRequest, CreateAnswer, Noun, Preparation, Verb, unwrap};
use super::list::{self, Page, Query};
use super::{
    Act, Action, Attribute, Checked, Method, Permission, RenderedObject, Reply, Resource, Scene, Selection,
    View, absent, quota, tags,
};
use crate::dialect::{CheckOrder, Dialect, HiddenObject, Refusal};
use crate::policy::Rule;
use crate::world::Entity;
use crate::{Caller, Fault, Txn, World};

struct StoredNoun<R>(PhantomData<fn() -> R>);

/// The noun of a resource.
pub const fn of<R: Resource>() -> &'static dyn Noun {
    const { &StoredNoun::<R>(PhantomData) }
}

/// The parent that the path names, for nouns with one. A caller that creates something inside of it must be allowed to change it (`find` is
/// then [`Noun::find_changeable`]); seeing it, because it is shared, is not enough.
fn parent_of<R: Resource>(
    named: Option<&str>,
    find: impl FnOnce(&'static dyn Noun, &str) -> Result<Uuid, Fault>,
) -> Result<Option<Uuid>, Fault> {
    match (R::PARENT, named) {
        (None, _) => Ok(None),
        (Some(parent), Some(id)) => find(parent.noun, id).map(Some),
        (Some(_), None) => Err(Fault::no_such_path()),
    }
}

/// The parent in which a request creates something.
fn parent_to_fill<R: Resource>(txn: &Txn, request: &ChangeRequest<'_>) -> Result<Option<Uuid>, Fault> {
    parent_of::<R>(request.parent, |noun, id| noun.find_changeable(txn, request.caller, id))
}

/// Refuses to replace a collection with objects that the caller may not change and delete.
fn permit_replacement<R: Resource>(txn: &Txn, caller: &Caller, parent: Option<Uuid>) -> Result<(), Fault> {
    let is_inside =
        |entity: &R::Entity| R::PARENT.zip(parent).is_none_or(|(noun, parent)| (noun.of)(entity) == parent);
    let may = |entity: &R::Entity| {
        let target = R::target(entity, txn);
        R::UPDATE.permits(caller, &target, None) && R::DELETE.permits(caller, &target, None)
    };
    let mut all = txn.table::<R::Entity>().iter();
    match all.any(|entity| is_inside(entity) && !may(entity)) {
        true => Err(R::refuse(Refusal::ForbiddenVerb(Verb::ReplaceAll))),
        false => Ok(()),
    }
}

/// An object that the caller may see, inside of the parent in the path.
fn find<'w, R: Resource>(
    world: &'w World,
    caller: &Caller,
    parent: Option<&str>,
    id: &str,
) -> Result<(Uuid, &'w Arc<R::Entity>), Fault> {
    // The parent must exist. Only the object's own rule decides whether the caller may see it: services see members of pools that they
    // may not see.
    let everyone = Caller::admin("");
    let inside = parent_of::<R>(parent, |noun, id| noun.find(world, &everyone, id))?;
    let found = Uuid::try_parse(id).ok().and_then(|uuid| Some((uuid, world.get::<R::Entity>(&uuid)?)));
    let is_inside = |entity: &R::Entity| {
        R::PARENT.zip(inside).is_none_or(|(parent, inside)| (parent.of)(entity) == inside)
    };
    match found.filter(|(_, entity)| is_inside(entity)) {
        Some((uuid, entity)) if R::visible(entity, world, caller) => Ok((uuid, entity)),
        Some(_) if R::DIALECT.hidden_object() == HiddenObject::Forbidden => {
            Err(R::refuse(Refusal::ForbiddenObject))
        }
        _ => Err(absent::<R>(id)),
    }
}

/// An object that the caller may change and that has the expected revision.
fn changeable<R: Resource>(
    world: &World,
    request: &ChangeRequest<'_>,
    id: &str,
    (rule, refusal): (Rule, impl FnOnce() -> Refusal),
) -> Result<(Uuid, Arc<R::Entity>), Fault> {
    let (id, entity) = find::<R>(world, request.caller, request.parent, id)?;
    if !rule.permits(request.caller, &R::target(entity, world), None) {
        return Err(R::refuse(refusal()));
    }
    expect_revision::<R>(request, entity)?;
    Ok((id, Arc::clone(entity)))
}

fn expect_revision<R: Resource>(request: &ChangeRequest<'_>, entity: &R::Entity) -> Result<(), Fault> {
    match (request.revision, R::standard(entity)) {
        (Some(expected), Some(standard)) if i64::try_from(standard.revision) != Ok(expected) => {
            Err(R::refuse(Refusal::WrongRevision { expected, present: standard.revision }))
        }
        _ => Ok(()),
    }
}

/// Increments the revision if the object changed and the noun has not incremented it.
fn count<R: Resource>(txn: &mut Txn, id: Uuid, before: &R::Entity) {
    let revision = |entity: &R::Entity| R::standard(entity).map(|standard| standard.revision);
    let changed = |after: &Arc<R::Entity>| **after != *before && revision(after) == revision(before);
    if txn.get::<R::Entity>(&id).is_some_and(changed) {
        super::touch::<R>(txn, id);
    }
}

fn rendered<R: Resource>(txn: &Txn, request: &ChangeRequest<'_>, id: Uuid) -> Result<RenderedObject, Fault> {
    let outside = txn.outside();
    let entity = txn.get::<R::Entity>(&id).ok_or_else(|| absent::<R>(id))?;
    let selection = Selection::new(R::attributes(), request.caller, &[]);
    let mut view = View::new(&selection);
    R::view(entity, &request.scene(txn, &outside, txn.now()), &mut view);
    Ok(view.finish())
}

/// A create request, after the checks that do not need the world.
fn check_new<R: Resource>(
    request: &ChangeRequest<'_>,
    body: &Map<String, Value>,
) -> Result<Checked, Refusal> {
    let new = Checked::create(R::attributes(), request.caller, body)?;
    // An object without a project would be under no quota, and only an administrator could delete it.
    if new.project().is_empty() {
        return Err(Refusal::NoOwner);
    }
    new.with_parameters(R::parameters(), request.query)
}

/// An update, after the checks that do not need the world.
fn check_change<R: Resource>(request: &ChangeRequest<'_>, body: &Value) -> Result<Checked, Refusal> {
    let change = Checked::update(R::attributes(), unwrap(R::NAME, body)?)?;
    change.with_parameters(R::parameters(), request.query)
}

/// Refuses a create request that the caller has no permission for.
fn permit_new<R: Resource>(txn: &Txn, caller: &Caller, new: &Checked) -> Result<(), Fault> {
    let target = R::target_of_new(txn, caller, new)?;
    if !R::CREATE.permits(caller, &target, None) {
        return Err(R::refuse(Refusal::ForbiddenVerb(Verb::Create)));
    }
    new.permit_create(R::attributes(), caller, &target).map_err(R::refuse)
}

/// Creates an object, if the caller has permission.
fn make<R: Resource>(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
    permit_new::<R>(txn, caller, new)?;
    if R::DIALECT.check_order() == CheckOrder::BodyFirst {
        check_quota::<R>(txn, std::slice::from_ref(new))?;
    }
    R::create(txn, caller, new)
}

/// Refuses objects that would together exceed the limits of their projects.
fn check_quota<R: Resource>(txn: &Txn, all: &[Checked]) -> Result<(), Fault> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for new in all {
        *counts.entry(R::project_of_new(txn, new)).or_default() += 1;
    }
    for (project, more) in counts {
        quota::check_objects(txn, R::DIALECT.limited(), R::Entity::KIND, project, more).map_err(R::refuse)?;
    }
    Ok(())
}

/// Checks all elements of a bulk request before the first is created.
fn check_many<R: Resource>(
    txn: &Txn,
    request: &ChangeRequest<'_>,
    elements: &[Value],
) -> Result<Vec<Checked>, Refusal> {
    let most = txn.outside().settings.max_bulk_size;
    if elements.len() > most {
        return Err(Refusal::LargeBulk { most, count: elements.len() });
    }
    let check = |element: &Value| {
        let element = element.as_object().ok_or(Refusal::MalformedBody)?;
        match element.get(R::NAME) {
            Some(Value::Object(inner)) if element.len() == 1 => check_new::<R>(request, inner),
            _ => check_new::<R>(request, element),
        }
    };
    elements.iter().map(check).collect()
}

/// The list under the collection's name, if the body has one.
fn list_in<R: Resource>(body: &Value) -> Result<Option<&Vec<Value>>, Refusal> {
    match body.as_object().ok_or(Refusal::MalformedBody)?.get(R::COLLECTION) {
        Some(many) => many.as_array().map(Some).ok_or(Refusal::MalformedBody),
        None => Ok(None),
    }
}

/// Whether the caller may run an action on a visible object.
fn may_act<R: Resource>(
    action: &Action,
    entity: &R::Entity,
    world: &World,
    caller: &Caller,
) -> Result<(), Fault> {
    let target = R::target(entity, world);
    let may = match action.who {
        Permission::Nobody => true,
        Permission::Owner => R::UPDATE.permits(caller, &target, None),
        Permission::By(rule) => rule.permits(caller, &target, None),
    };
    if may { Ok(()) } else { Err(R::refuse(Refusal::ForbiddenAction { rule: action.rule.to_owned() })) }
}

/// Applies the attributes that the engine itself keeps. The body contains tags only if the noun's table allows that.
fn set_standard<R: Resource>(txn: &mut Txn, id: Uuid, change: &Checked) {
    let (description, tags) = (change.text("description"), change.read("tags"));
    if description.is_none() && tags.is_none() {
        return;
    }
    txn.edit::<R::Entity>(&id, |entity| {
        if let Some(standard) = R::standard_mut(entity) {
            if let Some(description) = description {
                description.clone_into(&mut standard.description);
            }
            if let Some(tags) = tags {
                standard.tags = tags;
            }
        }
    });
}

impl<R: Resource> Noun for StoredNoun<R> {
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
    fn dialect(&self) -> &'static dyn Dialect {
        R::DIALECT
    }
    fn parent(&self) -> Option<&'static dyn Noun> {
        R::PARENT.map(|parent| parent.noun)
    }
    fn parameters(&self) -> &'static [Attribute] {
        R::parameters()
    }
    fn query(&self, pairs: Vec<(String, String)>) -> Result<Query, Fault> {
        Query::parse(pairs, R::DIALECT.query_grammar()).map_err(R::refuse)
    }
    fn find(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault> {
        find::<R>(world, caller, None, id).map(|(id, _)| id)
    }
    fn find_changeable(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault> {
        let (id, entity) = find::<R>(world, caller, None, id)?;
        match R::UPDATE.permits(caller, &R::target(entity, world), None) {
            true => Ok(id),
            false => Err(R::refuse(Refusal::ForbiddenVerb(Verb::Update))),
        }
    }
    fn prepare(&self, world: &World, caller: &Caller) -> Option<Preparation> {
        R::prepare(world, caller)
    }

    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault> {
        let parent = parent_of::<R>(scene.parent, |noun, id| noun.find(scene.world, scene.caller, id))?;
        // In a dialect that answers 403 for hidden objects, a caller without any reading role gets no empty list either.
        if R::DIALECT.hidden_object() == HiddenObject::Forbidden && !R::GET.may_permit(scene.caller) {
            return Err(R::refuse(Refusal::ForbiddenObject));
        }
        list::stored::<R>(scene, parent, query).map_err(R::refuse)
    }

    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<RenderedObject, Fault> {
        let (_, entity) = find::<R>(scene.world, scene.caller, scene.parent, id)?;
        let selection = Selection::new(R::attributes(), scene.caller, fields);
        let mut view = View::new(&selection);
        R::view(entity, scene, &mut view);
        Ok(view.finish())
    }

    fn create(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        body: &Value,
    ) -> Result<CreateAnswer, Fault> {
        let caller = request.caller;
        txn.see(request.report);
        let may = || match R::CREATE.may_permit(caller) {
            true => Ok(()),
            false => Err(R::refuse(Refusal::ForbiddenVerb(Verb::Create))),
        };
        if R::DIALECT.check_order() == CheckOrder::ObjectFirst {
            may()?;
        }
        let Some(elements) = list_in::<R>(body).map_err(R::refuse)? else {
            let new = unwrap(R::NAME, body).and_then(|body| check_new::<R>(request, body));
            let new = new.map_err(R::refuse)?.inside(parent_to_fill::<R>(txn, request)?);
            may()?;
            let id = make::<R>(txn, caller, &new)?;
            return rendered::<R>(txn, request, id).map(CreateAnswer::One);
        };
        if elements.is_empty() {
            return Err(R::refuse(Refusal::EmptyBulk));
        }
        let checked = check_many::<R>(txn, request, elements).map_err(R::refuse)?;
        let parent = parent_to_fill::<R>(txn, request)?;
        may()?;
        let checked: Vec<Checked> = checked.into_iter().map(|new| new.inside(parent)).collect();
        check_quota::<R>(txn, &checked)?;
        let ids: Vec<Uuid> =
            checked.iter().map(|new| make::<R>(txn, caller, new)).collect::<Result<_, _>>()?;
        // Rendered when all exist: a later one may have changed an earlier one.
        ids.into_iter()
            .map(|id| rendered::<R>(txn, request, id))
            .collect::<Result<_, _>>()
            .map(CreateAnswer::Many)
    }

    fn update(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        id: &str,
        body: &Value,
    ) -> Result<RenderedObject, Fault> {
        let checked = check_change::<R>(request, body);
        let checked = match (R::DIALECT.check_order(), checked) {
            // An attribute that no caller may change is refused for any object, as Neutron does too.
            (CheckOrder::BodyFirst, Err(refusal)) | (_, Err(refusal @ Refusal::NotUpdatable(_))) => {
                return Err(R::refuse(refusal));
            }
            (_, checked) => checked,
        };
        let refusal = || Refusal::ForbiddenVerb(Verb::Update);
        let (id, before) = changeable::<R>(txn, request, id, (R::UPDATE, refusal))?;
        let change = checked.map_err(R::refuse)?;
        let change = change.inside(R::PARENT.map(|parent| (parent.of)(&before)));
        let target = R::target(&before, txn);
        change.permit_update(R::attributes(), request.caller, &target).map_err(R::refuse)?;
        txn.see(request.report);
        R::update(txn, request.caller, id, &change)?;
        set_standard::<R>(txn, id, &change);
        count::<R>(txn, id, &before);
        rendered::<R>(txn, request, id)
    }

    fn delete(&self, txn: &mut Txn, request: &ChangeRequest<'_>, id: &str) -> Result<(), Fault> {
        let parameters = Checked::default().with_parameters(R::parameters(), request.query);
        let parameters = parameters.map_err(R::refuse)?;
        let refusal = || Refusal::ForbiddenVerb(Verb::Delete);
        let (id, before) = changeable::<R>(txn, request, id, (R::DELETE, refusal))?;
        let parameters = parameters.inside(R::PARENT.map(|parent| (parent.of)(&before)));
        txn.see(request.report);
        R::delete(txn, request.caller, id, &parameters)
    }

    fn replace_all(&self, txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value) -> Result<(), Fault> {
        let caller = request.caller;
        let elements = list_in::<R>(body).map_err(R::refuse)?;
        let elements = elements.ok_or_else(|| R::refuse(Refusal::NoObject { name: R::COLLECTION }))?;
        let checked = check_many::<R>(txn, request, elements).map_err(R::refuse)?;
        let parameters = Checked::default().with_parameters(R::parameters(), request.query);
        let parameters = parameters.map_err(R::refuse)?;
        let parent = parent_to_fill::<R>(txn, request)?;
        permit_replacement::<R>(txn, caller, parent)?;
        let checked: Vec<Checked> = checked.into_iter().map(|new| new.inside(parent)).collect();
        for new in &checked {
            permit_new::<R>(txn, caller, new)?;
        }
        txn.see(request.report);
        R::replace_all(txn, caller, &checked, &parameters.inside(parent))
    }

    fn look(
        &self,
        scene: &Scene<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<Reply, Fault> {
        let (id, entity) = find::<R>(scene.world, scene.caller, scene.parent, action_request.id)?;
        may_act::<R>(action, entity, scene.world, scene.caller)?;
        match action.act {
            Act::Read(read) => read(scene, &action_request.by(scene.caller, id)),
            Act::Change(_) => Err(Fault::not_allowed()),
        }
    }

    fn act(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<(Reply, Option<RenderedObject>), Fault> {
        let (id, before) = find::<R>(txn, request.caller, request.parent, action_request.id)?;
        may_act::<R>(action, before, txn, request.caller)?;
        expect_revision::<R>(request, before)?;
        let before = Arc::clone(before);
        let Act::Change(change) = action.act else { return Err(Fault::not_allowed()) };
        let reply = change(txn, &action_request.by(request.caller, id))?;
        count::<R>(txn, id, &before);
        let object = if reply == Reply::Object { Some(rendered::<R>(txn, request, id)?) } else { None };
        Ok((reply, object))
    }

    fn tags(&self, scene: &Scene<'_>, id: &str, tag: Option<&str>) -> Result<(u16, Reply), Fault> {
        let (_, entity) = find::<R>(scene.world, scene.caller, scene.parent, id)?;
        let mut tags = R::standard(entity).map(|standard| standard.tags.clone()).unwrap_or_default();
        tags::apply(&mut tags, id, Method::Get, tag, &Value::Null)
    }

    fn set_tags(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        method: Method,
        action_request: ActionRequest<'_>,
    ) -> Result<(u16, Reply), Fault> {
        let refusal = || Refusal::ForbiddenAction { rule: format!("update_{}_tags", R::PATH) };
        let (id, before) = changeable::<R>(txn, request, action_request.id, (R::TAGS, refusal))?;
        let mut tags = R::standard(&before).map(|standard| standard.tags.clone()).unwrap_or_default();
        let tag = action_request.args.first().copied();
        let answer = tags::apply(&mut tags, action_request.id, method, tag, action_request.body)?;
        txn.edit::<R::Entity>(&id, |entity| {
            if let Some(standard) = R::standard_mut(entity) {
                standard.tags = tags;
            }
        });
        count::<R>(txn, id, &before);
        Ok(answer)
    }
}
