//! Tests the engine with nouns of another dialect than Neutron's: see [`shelf`](crate::resource::fixture::shelf).

use serde_json::{Value, json};

use crate::dialect::{Dialect, Neutron};
use crate::report::Report;
use crate::resource::fixture::shelf::{Boxes, Shelves, Warehouse, later};
use crate::resource::fixture::txn;
use crate::resource::{ChangeRequest, CreateAnswer, Noun, Page, RenderedObject, Scene, of};
use crate::world::Outside;
use crate::{Caller, Fault, Txn};

struct Room {
    txn: Txn,
    caller: Caller,
}

fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

impl Room {
    fn new() -> Self {
        Room { txn: txn(), caller: Caller::member("p") }
    }

    /// A room with one shelf, and the shelf's id.
    fn with_shelf() -> (Self, String) {
        let mut room = Room::new();
        let shelf = room.create(of::<Shelves>(), None, json!({"shelf": {"name": "s"}})).unwrap();
        (room, id_of(&shelf))
    }

    fn change<T>(
        &mut self,
        parent: Option<&str>,
        query: &str,
        run: impl FnOnce(&mut Txn, &ChangeRequest<'_>) -> Result<T, Fault>,
    ) -> Result<T, (u16, String)> {
        let (report, query) = (Report::default(), pairs(query));
        let request = ChangeRequest { parent, query: &query, ..ChangeRequest::by(&self.caller, &report) };
        run(&mut self.txn, &request).map_err(|fault| (fault.status, fault.message))
    }

    fn create(&mut self, noun: &dyn Noun, parent: Option<&str>, body: Value) -> Result<Value, (u16, String)> {
        match self.change(parent, "", |txn, request| noun.create(txn, request, &body))? {
            CreateAnswer::One(object) => Ok(object.into_value()),
            CreateAnswer::Many(objects) => Ok(objects.into_iter().map(RenderedObject::into_value).collect()),
        }
    }

    fn put_box(&mut self, shelf: &str, name: &str) -> String {
        id_of(&self.create(of::<Boxes>(), Some(shelf), json!({"box": {"name": name}})).unwrap())
    }

    fn look<T>(&self, parent: Option<&str>, look: impl FnOnce(&Scene<'_>) -> T) -> T {
        let (report, outside) = (Report::default(), Outside::default());
        let (world, caller) = (&*self.txn, &self.caller);
        look(&Scene { world, report: &report, outside: &outside, caller, now: later(30), parent })
    }

    fn page(&self, shelf: &str, query: &str) -> Result<Page, Fault> {
        let noun = of::<Boxes>();
        let query = noun.query(pairs(query))?;
        self.look(Some(shelf), |scene| noun.list(scene, &query))
    }

    fn names(&self, shelf: &str, query: &str) -> Vec<String> {
        let page = self.page(shelf, query).unwrap();
        page.items.iter().map(|it| it.into_value()["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn an_object_is_found_only_inside_of_the_parent_that_its_path_names() {
    let (mut room, shelf) = Room::with_shelf();
    let other = id_of(&room.create(of::<Shelves>(), None, json!({"shelf": {}})).unwrap());
    let id = room.put_box(&shelf, "a");
    room.put_box(&other, "b");
    assert_eq!((room.names(&shelf, ""), room.names(&other, "")), (vec!["a".into()], vec!["b".into()]));
    let show = |room: &Room, parent: Option<&str>| {
        let shown = room.look(parent, |scene| of::<Boxes>().show(scene, &id, &[]));
        shown.map(RenderedObject::into_value).map_err(|fault| (fault.status, fault.message))
    };
    let shown = show(&room, Some(&shelf)).unwrap();
    assert_eq!((&shown["name"], &shown["age"]), (&json!("a"), &json!(30)), "views know the time");
    assert_eq!(show(&room, Some(&other)).unwrap_err(), (404, format!("Box {id} not found.")));
    assert_eq!(show(&room, Some("nowhere")).unwrap_err(), (404, "Shelf nowhere not found.".into()));
    assert_eq!(show(&room, None).unwrap_err().0, 404);
    let page = room.page(&other, &format!("id={id}")).unwrap();
    assert_eq!(page.items.iter().count(), 0, "a filter does not reach out of the parent");
    let body = json!({"box": {"name": "c"}});
    let update = |txn: &mut Txn, request: &ChangeRequest<'_>| of::<Boxes>().update(txn, request, &id, &body);
    assert_eq!(room.change(Some(&other), "", update).unwrap_err().0, 404);
    let delete = |txn: &mut Txn, request: &ChangeRequest<'_>| of::<Boxes>().delete(txn, request, &id);
    assert_eq!(room.change(Some(&other), "", delete).unwrap_err().0, 404);
    room.change(Some(&shelf), "", delete).unwrap();
}

#[test]
fn mistakes_are_reported_in_the_order_and_the_words_of_the_dialect() {
    let (mut room, shelf) = Room::with_shelf();
    let id = room.put_box(&shelf, "a");
    let good = json!({"box": {"name": "b"}});
    let bad = json!({"box": {"weight": 0}});
    let unknown = json!({"box": {"colour": "red"}});
    let create = |room: &mut Room, parent: &str, body: &Value| {
        room.create(of::<Boxes>(), Some(parent), body.clone()).unwrap_err()
    };
    let (status, text) = create(&mut room, "nowhere", &bad);
    assert_eq!(status, 400, "the body comes before the parent: {text}");
    assert!(text.starts_with("weight cannot be 0: "), "{text}");
    assert_eq!(
        create(&mut room, &shelf, &unknown),
        (400, "Unknown attribute for argument box: colour".to_owned())
    );
    assert_eq!(create(&mut room, "nowhere", &good).0, 404);

    room.caller = Caller::member("q");
    assert_eq!(create(&mut room, &shelf, &good), (403, "Not yours.".into()), "a foreign parent");
    assert_eq!(create(&mut room, &shelf, &bad).0, 400, "the body comes before the permission");
    let update = |body: Value| {
        let id = id.clone();
        move |txn: &mut Txn, request: &ChangeRequest<'_>| of::<Boxes>().update(txn, request, &id, &body)
    };
    assert_eq!(room.change(Some(&shelf), "", update(bad.clone())).unwrap_err().0, 400);
    assert_eq!(room.change(Some(&shelf), "", update(good.clone())).unwrap_err().0, 403);
    let shown = room.look(None, |scene| of::<Shelves>().show(scene, &shelf, &[]));
    assert_eq!(shown.unwrap_err().status, 403, "a foreign object is forbidden, not absent");

    room.caller = Caller::reader("p");
    assert_eq!(create(&mut room, &shelf, &good).0, 403);
    assert_eq!(create(&mut room, &shelf, &bad).0, 400);

    room.caller = Caller::member("p");
    room.txn.put(crate::model::QuotaSet { project: "p".into(), limits: [("box".to_owned(), 1)].into() });
    assert_eq!(create(&mut room, &shelf, &good), (403, "Too many: box".into()), "its own quota");
    assert_eq!(create(&mut room, &shelf, &bad).0, 400);
}

#[test]
fn a_put_on_the_collection_makes_it_what_the_body_says() {
    let (mut room, shelf) = Room::with_shelf();
    let (kept, _) = (room.put_box(&shelf, "a"), room.put_box(&shelf, "b"));
    let replace = |room: &mut Room, parent: &str, query: &str, body: Value| {
        room.change(Some(parent), query, |txn, request| of::<Boxes>().replace_all(txn, request, &body))
    };
    let body = json!({"boxes": [{"name": "a", "weight": "7"}, {"name": "c"}]});
    replace(&mut room, &shelf, "additive_only=True", body.clone()).unwrap();
    assert_eq!(room.names(&shelf, "sort=name"), ["a", "b", "c"]);
    replace(&mut room, &shelf, "", body.clone()).unwrap();
    assert_eq!(room.names(&shelf, "sort=name:desc"), ["c", "a"]);
    let shown = room.look(Some(&shelf), |scene| of::<Boxes>().show(scene, &kept, &[])).unwrap();
    assert_eq!(shown.into_value()["weight"], 7);
    replace(&mut room, &shelf, "", json!({"boxes": []})).unwrap();
    assert!(room.names(&shelf, "").is_empty(), "an empty list is a list");
    for (parent, query, body, status) in [
        (shelf.as_str(), "", json!({"box": {}}), 400),
        (&shelf, "", json!({"boxes": [{"name": "d"}, {"weight": 0}]}), 400),
        (&shelf, "additive_only=perhaps", json!({"boxes": []}), 400),
        ("nowhere", "", body.clone(), 404),
    ] {
        assert_eq!(replace(&mut room, parent, query, body.clone()).unwrap_err().0, status, "{body}");
    }
    room.caller = Caller::member("q");
    assert_eq!(replace(&mut room, &shelf, "", body).unwrap_err().0, 403);
    let body = json!({"networks": []});
    let report = Report::default();
    let request = ChangeRequest::by(&room.caller, &report);
    let fault = of::<crate::resource::network::Networks>().replace_all(&mut room.txn, &request, &body);
    assert_eq!(fault.unwrap_err().status, 405, "a noun that has no such PUT");
}

/// A tenant who sees a shared parent may neither fill nor empty it.
#[test]
fn nobody_changes_what_is_inside_of_a_parent_that_is_only_shared() {
    let mut room = Room::new();
    let shelf = id_of(&room.create(of::<Shelves>(), None, json!({"shelf": {"name": "shared"}})).unwrap());
    let id = room.put_box(&shelf, "a");
    room.caller = Caller::member("q");
    room.look(None, |scene| of::<Shelves>().show(scene, &shelf, &[])).unwrap();
    assert!(room.names(&shelf, "").is_empty(), "the boxes of others are not shown");
    let new = room.create(of::<Boxes>(), Some(&shelf), json!({"box": {"name": "b"}}));
    assert_eq!(new.unwrap_err().0, 403);
    let many = room.create(of::<Boxes>(), Some(&shelf), json!({"boxes": [{"name": "b"}]}));
    assert_eq!(many.unwrap_err().0, 403);
    for body in [json!({"boxes": []}), json!({"boxes": [{"name": "a"}]})] {
        let replaced = room.change(Some(&shelf), "", |txn, by| of::<Boxes>().replace_all(txn, by, &body));
        assert_eq!(replaced.unwrap_err().0, 403, "{body}");
    }
    let delete = |txn: &mut Txn, by: &ChangeRequest<'_>| of::<Boxes>().delete(txn, by, &id);
    assert_eq!(room.change(Some(&shelf), "", delete).unwrap_err().0, 403);
    room.caller = Caller::member("p");
    assert_eq!(room.names(&shelf, ""), ["a"]);
}

#[test]
fn a_deletion_has_the_query_parameters_that_its_noun_declares() {
    let (mut room, shelf) = Room::with_shelf();
    room.put_box(&shelf, "a");
    let delete = |txn: &mut Txn, request: &ChangeRequest<'_>| of::<Shelves>().delete(txn, request, &shelf);
    for (query, status) in [("", 409), ("cascade=false", 409), ("other=true", 409), ("cascade=maybe", 400)] {
        assert_eq!(room.change(None, query, delete).unwrap_err().0, status, "{query}");
    }
    room.change(None, "cascade=True", delete).unwrap();
    assert!(room.txn.is_empty());
}

#[test]
fn null_in_an_update_and_tags_in_a_body_are_as_the_noun_declares() {
    let (mut room, shelf) = Room::with_shelf();
    let new = json!({"box": {"name": "a", "weight": 9, "tags": ["x"]}});
    let made = room.create(of::<Boxes>(), Some(&shelf), new).unwrap();
    let id = id_of(&made);
    let mut update = |body: Value| {
        let body = json!({"box": body});
        let changed = room.change(Some(&shelf), "", |txn, by| of::<Boxes>().update(txn, by, &id, &body));
        changed.map(RenderedObject::into_value)
    };
    let changed = update(json!({"weight": null, "tags": ["y", "z"]})).unwrap();
    assert_eq!((&changed["weight"], &changed["tags"]), (&json!(1), &json!(["y", "z"])));
    assert_eq!(update(json!({"name": null})).unwrap_err().0, 400, "no meaning is declared for it");
}

#[test]
fn lists_have_the_grammar_of_the_dialect() {
    let (mut room, shelf) = Room::with_shelf();
    for name in ["b", "c", "a"] {
        room.put_box(&shelf, name);
    }
    assert_eq!(room.names(&shelf, "sort=name:desc,id:asc"), ["c", "b", "a"]);
    assert_eq!(room.names(&shelf, "sort_key=name&sort_dir=asc&verbose=true"), ["a", "b", "c"]);
    for limit in ["infinite", "-1", "0"] {
        assert_eq!(room.names(&shelf, &format!("limit={limit}")).len(), 3, "{limit}");
    }
    let rels = |query: &str| {
        let page = room.page(&shelf, query).unwrap();
        page.links.into_iter().map(|(rel, _)| rel).collect::<Vec<_>>()
    };
    assert_eq!(rels("limit=2"), ["next"]);
    assert_eq!(rels("limit=5"), [""; 0]);
    let first = room.page(&shelf, "limit=2&sort=name").unwrap().links.remove(0).1;
    assert_eq!((rels(&first), room.names(&shelf, &first)), (vec!["previous"], vec!["c".to_owned()]));
    for query in ["sort=colour", "sort=name:up", "colour=red"] {
        assert_eq!(room.page(&shelf, query).unwrap_err().status, 400, "{query}");
    }
}

#[test]
fn each_api_has_quotas_of_its_own() {
    let names = |dialect: &dyn Dialect| dialect.limited().iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names(&Warehouse), ["box"]);
    assert!(names(&Neutron).contains(&"subnetpool") && !names(&Neutron).contains(&"box"));
}
