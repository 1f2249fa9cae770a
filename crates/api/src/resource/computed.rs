//! Nouns that are not stored: computed from OVN's reports or from other nouns at each request.

use std::marker::PhantomData;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::engine::unwrap;
use super::{
    Act, Action, ActionRequest, Attribute, ChangeRequest, Checked, CreateAnswer, Filters, Method, Noun, Page,
    Permission, Preparation, Query, RenderedObject, Reply, Scene, Selection, Verb, View, list,
};
use crate::dialect::{Dialect, NounNames, Refusal};
use crate::policy::PolicyTarget;
use crate::{Caller, Fault, Txn, World};

/// A noun that is not stored.
pub trait Computed: 'static {
    /// The name in bodies.
    const NAME: &'static str;
    /// The name in list responses.
    const COLLECTION: &'static str;
    /// The name in paths.
    const PATH: &'static str;
    /// The attribute that identifies an object in paths; none if there are only lists.
    const KEY: Option<&'static str>;
    /// The type and the first word of the fault for an unknown object.
    const ABSENT: (&'static str, &'static str);
    /// The verbs besides reading.
    const VERBS: &'static [Verb] = &[];

    /// The dialect of its API.
    const DIALECT: &'static dyn Dialect;

    /// Its attributes.
    fn attributes() -> &'static [Attribute];
    /// Further actions on one object.
    fn actions() -> &'static [Action] {
        &[]
    }
    /// All objects that the caller may see, with all attributes.
    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>>;
    /// The rows of a list before filtering. An implementation takes out filters that mean more than a comparison with a shown value.
    fn listed(scene: &Scene<'_>, _filters: &mut Filters) -> Vec<Map<String, Value>> {
        Self::rows(scene)
    }
    /// Changes one object; `_row` is its present state as the caller sees it.
    fn update(
        _txn: &mut Txn,
        _caller: &Caller,
        _row: &Map<String, Value>,
        _change: &Checked,
    ) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }
    /// Deletes one object; `_row` is its present state as the caller sees it.
    fn delete(_txn: &mut Txn, _caller: &Caller, _row: &Map<String, Value>) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }

    /// Renders a refusal of the engine in the dialect of the noun's API.
    fn refuse(refusal: Refusal) -> Fault {
        Self::DIALECT.refuse(NounNames { name: Self::NAME, absent: Self::ABSENT }, refusal)
    }
}

struct ComputedNoun<C>(PhantomData<fn() -> C>);

/// The noun of a computed resource.
pub const fn of<C: Computed>() -> &'static dyn Noun {
    const { &ComputedNoun::<C>(PhantomData) }
}

fn row<C: Computed>(scene: &Scene<'_>, id: &str) -> Result<Map<String, Value>, Fault> {
    let key = C::KEY.ok_or_else(Fault::no_such_path)?;
    C::rows(scene)
        .into_iter()
        .find(|row| row.get(key).and_then(Value::as_str) == Some(id))
        .ok_or_else(|| C::refuse(Refusal::Absent { id: id.to_owned() }))
}

/// Writes a row into a view.
pub(super) fn write(row: &Map<String, Value>, attributes: &[Attribute], view: &mut View<'_>) {
    for attribute in attributes {
        view.value(attribute.name, row.get(attribute.name).unwrap_or(&Value::Null));
    }
}

fn shown<C: Computed>(scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<RenderedObject, Fault> {
    let row = row::<C>(scene, id)?;
    let selection = Selection::new(C::attributes(), scene.caller, fields);
    let mut view = View::new(&selection);
    write(&row, C::attributes(), &mut view);
    Ok(view.finish())
}

fn may_change<C: Computed>(caller: &Caller, verb: Verb) -> Result<(), Fault> {
    if caller.admin { Ok(()) } else { Err(C::refuse(Refusal::ForbiddenVerb(verb))) }
}

fn may_act<C: Computed>(action: &Action, caller: &Caller) -> Result<(), Fault> {
    let may = match action.who {
        Permission::Nobody => true,
        Permission::Owner => caller.admin,
        Permission::By(rule) => rule.permits(caller, &PolicyTarget::default(), None),
    };
    if may { Ok(()) } else { Err(C::refuse(Refusal::ForbiddenAction { rule: action.rule.to_owned() })) }
}

impl<C: Computed> Noun for ComputedNoun<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn collection(&self) -> &'static str {
        C::COLLECTION
    }
    fn path(&self) -> &'static str {
        C::PATH
    }
    fn attributes(&self) -> &'static [Attribute] {
        C::attributes()
    }
    fn verbs(&self) -> &'static [Verb] {
        C::VERBS
    }
    fn single(&self) -> bool {
        C::KEY.is_some()
    }
    fn tagged(&self) -> bool {
        false
    }
    fn actions(&self) -> &'static [Action] {
        C::actions()
    }
    fn dialect(&self) -> &'static dyn Dialect {
        C::DIALECT
    }
    fn query(&self, pairs: Vec<(String, String)>) -> Result<Query, Fault> {
        Query::parse(pairs, C::DIALECT.query_grammar()).map_err(C::refuse)
    }
    fn find(&self, _world: &World, _caller: &Caller, id: &str) -> Result<Uuid, Fault> {
        Err(C::refuse(Refusal::Absent { id: id.to_owned() }))
    }
    fn find_changeable(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault> {
        self.find(world, caller, id)
    }
    fn prepare(&self, _world: &World, _caller: &Caller) -> Option<Preparation> {
        None
    }

    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault> {
        list::computed::<C>(scene, query).map_err(C::refuse)
    }

    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<RenderedObject, Fault> {
        shown::<C>(scene, id, fields)
    }

    fn create(
        &self,
        _txn: &mut Txn,
        _request: &ChangeRequest<'_>,
        _body: &Value,
    ) -> Result<CreateAnswer, Fault> {
        Err(Fault::not_allowed())
    }

    fn update(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        id: &str,
        body: &Value,
    ) -> Result<RenderedObject, Fault> {
        let outside = txn.outside();
        let row = row::<C>(&request.scene(txn, &outside, txn.now()), id)?;
        may_change::<C>(request.caller, Verb::Update)?;
        let change = unwrap(C::NAME, body).and_then(|body| Checked::update(C::attributes(), body));
        let change = change.map_err(C::refuse)?;
        let target = PolicyTarget::default();
        change.permit_update(C::attributes(), request.caller, &target).map_err(C::refuse)?;
        C::update(txn, request.caller, &row, &change)?;
        shown::<C>(&request.scene(txn, &outside, txn.now()), id, &[])
    }

    fn delete(&self, txn: &mut Txn, request: &ChangeRequest<'_>, id: &str) -> Result<(), Fault> {
        let outside = txn.outside();
        let row = row::<C>(&request.scene(txn, &outside, txn.now()), id)?;
        may_change::<C>(request.caller, Verb::Delete)?;
        C::delete(txn, request.caller, &row)
    }

    fn replace_all(&self, _txn: &mut Txn, _request: &ChangeRequest<'_>, _body: &Value) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }

    fn look(&self, scene: &Scene<'_>, action: &Action, asked: ActionRequest<'_>) -> Result<Reply, Fault> {
        row::<C>(scene, asked.id)?;
        may_act::<C>(action, scene.caller)?;
        match action.act {
            Act::Read(read) => read(scene, &asked.by(scene.caller, Uuid::nil())),
            Act::Change(_) => Err(Fault::not_allowed()),
        }
    }

    fn act(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        action: &Action,
        asked: ActionRequest<'_>,
    ) -> Result<(Reply, Option<RenderedObject>), Fault> {
        let outside = txn.outside();
        row::<C>(&request.scene(txn, &outside, txn.now()), asked.id)?;
        may_act::<C>(action, request.caller)?;
        let Act::Change(change) = action.act else { return Err(Fault::not_allowed()) };
        let reply = change(txn, &asked.by(request.caller, Uuid::nil()))?;
        let object = match reply {
            Reply::Object => Some(shown::<C>(&request.scene(txn, &outside, txn.now()), asked.id, &[])?),
            _ => None,
        };
        Ok((reply, object))
    }

    fn tags(&self, _scene: &Scene<'_>, _id: &str, _tag: Option<&str>) -> Result<(u16, Reply), Fault> {
        Err(Fault::no_such_path())
    }

    fn set_tags(
        &self,
        _txn: &mut Txn,
        _request: &ChangeRequest<'_>,
        _method: Method,
        _asked: ActionRequest<'_>,
    ) -> Result<(u16, Reply), Fault> {
        Err(Fault::no_such_path())
    }
}
