//! Nouns that are stored nowhere: read from OVN's reports or counted from other nouns whenever they are asked for.

use std::marker::PhantomData;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::engine::unwrap;
use super::{
    Act, Action, Asked, Attribute, Changed, Checked, Filters, Method, Noun, Page, Precondition, Preparation,
    Query, Reply, Scene, Selection, Shown, Verb, View, Who, list,
};
use crate::policy::PolicyTarget;
use crate::{Caller, Fault, Txn, World};

/// A noun that is read from elsewhere.
pub trait Computed: 'static {
    /// In bodies.
    const NAME: &'static str;
    /// In answers to lists.
    const COLLECTION: &'static str;
    /// In paths.
    const PATH: &'static str;
    /// The attribute that paths name one by; none if single ones cannot be asked for.
    const KEY: Option<&'static str>;
    /// Type and first word of the fault if there is none.
    const ABSENT: (&'static str, &'static str);
    /// What can be done besides looking.
    const VERBS: &'static [Verb] = &[];

    /// Its attributes.
    fn attributes() -> &'static [Attribute];
    /// What else can be asked of one.
    fn actions() -> &'static [Action] {
        &[]
    }
    /// All that the caller may see, with all attributes.
    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>>;
    /// The rows that a list begins with. Filters that mean more than a comparison with what is shown are taken out here.
    fn listed(scene: &Scene<'_>, _filters: &mut Filters) -> Vec<Map<String, Value>> {
        Self::rows(scene)
    }
    /// Changes one; the row is as the caller sees it.
    fn update(
        _txn: &mut Txn,
        _caller: &Caller,
        _row: &Map<String, Value>,
        _change: &Checked,
    ) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }
    /// Removes one; the row is as the caller sees it.
    fn delete(_txn: &mut Txn, _caller: &Caller, _row: &Map<String, Value>) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }
}

struct Of<C>(PhantomData<fn() -> C>);

/// The noun of a computed resource.
pub const fn of<C: Computed>() -> &'static dyn Noun {
    const { &Of::<C>(PhantomData) }
}

fn row<C: Computed>(scene: &Scene<'_>, id: &str) -> Result<Map<String, Value>, Fault> {
    let key = C::KEY.ok_or_else(Fault::no_such_path)?;
    C::rows(scene)
        .into_iter()
        .find(|row| row.get(key).and_then(Value::as_str) == Some(id))
        .ok_or_else(|| Fault::absent(C::ABSENT.0, C::ABSENT.1, id))
}

/// Writes a row.
pub(super) fn write(row: &Map<String, Value>, attributes: &[Attribute], view: &mut View<'_>) {
    for attribute in attributes {
        view.value(attribute.name, row.get(attribute.name).unwrap_or(&Value::Null));
    }
}

fn shown<C: Computed>(scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<Shown, Fault> {
    let row = row::<C>(scene, id)?;
    let selection = Selection::new(C::attributes(), scene.caller, fields);
    let mut view = View::new(&selection);
    write(&row, C::attributes(), &mut view);
    Ok(view.finish())
}

fn may_change(caller: &Caller, rule: impl FnOnce() -> String) -> Result<(), Fault> {
    if caller.admin { Ok(()) } else { Err(Fault::forbidden(rule())) }
}

fn may_act(action: &Action, caller: &Caller) -> Result<(), Fault> {
    let may = match action.who {
        Who::Nobody => true,
        Who::Owner => caller.admin,
        Who::By(rule) => rule.permits(caller, &PolicyTarget::default(), None),
    };
    if may { Ok(()) } else { Err(Fault::forbidden(action.rule)) }
}

impl<C: Computed> Noun for Of<C> {
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
    fn prepare(&self, _world: &World, _caller: &Caller) -> Option<Preparation> {
        None
    }

    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault> {
        list::computed::<C>(scene, query)
    }

    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<Shown, Fault> {
        shown::<C>(scene, id, fields)
    }

    fn create(&self, _txn: &mut Txn, _who: &Precondition<'_>, _body: &Value) -> Result<Changed, Fault> {
        Err(Fault::not_allowed())
    }

    fn update(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str, body: &Value) -> Result<Shown, Fault> {
        let outside = txn.outside();
        let row = row::<C>(&who.scene(txn, &outside), id)?;
        may_change(who.caller, || format!("update_{}", C::NAME))?;
        let change = Checked::update(C::attributes(), unwrap(C::NAME, body)?)?;
        change.permit_update(C::NAME, C::attributes(), who.caller, &PolicyTarget::default())?;
        C::update(txn, who.caller, &row, &change)?;
        shown::<C>(&who.scene(txn, &outside), id, &[])
    }

    fn delete(&self, txn: &mut Txn, who: &Precondition<'_>, id: &str) -> Result<(), Fault> {
        let outside = txn.outside();
        let row = row::<C>(&who.scene(txn, &outside), id)?;
        may_change(who.caller, || format!("delete_{}", C::NAME))?;
        C::delete(txn, who.caller, &row)
    }

    fn look(&self, scene: &Scene<'_>, action: &Action, asked: Asked<'_>) -> Result<Reply, Fault> {
        row::<C>(scene, asked.id)?;
        may_act(action, scene.caller)?;
        match action.act {
            Act::Read(read) => read(scene, &asked.by(scene.caller, Uuid::nil())),
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
        let outside = txn.outside();
        row::<C>(&who.scene(txn, &outside), asked.id)?;
        may_act(action, who.caller)?;
        let Act::Change(change) = action.act else { return Err(Fault::not_allowed()) };
        let reply = change(txn, &asked.by(who.caller, Uuid::nil()))?;
        let object = match reply {
            Reply::Object => Some(shown::<C>(&who.scene(txn, &outside), asked.id, &[])?),
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
        _who: &Precondition<'_>,
        _method: Method,
        _asked: Asked<'_>,
    ) -> Result<(u16, Reply), Fault> {
        Err(Fault::no_such_path())
    }
}
