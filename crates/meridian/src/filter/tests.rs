use super::*;
use ovsdb::wire::DatabaseSchema;
use proptest::prelude::*;

fn table() -> TableSchema {
    let schema = DatabaseSchema::parse(
        r#"{"name":"d","version":"1.0.0","tables":{"T":{"columns":{
            "name":{"type":"string"},
            "up":{"type":{"key":"boolean","min":0}},
            "tag":{"type":{"key":{"type":"integer","minInteger":1},"min":0}},
            "priority":{"type":"integer"},
            "load":{"type":"real"},
            "kind":{"type":{"key":{"type":"string","enum":["set",["router","switch"]]}}},
            "ports":{"type":{"key":{"type":"uuid","refTable":"T"},"min":0,"max":"unlimited"}},
            "addresses":{"type":{"key":"string","min":0,"max":"unlimited"}},
            "external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
            "queues":{"type":{"key":"integer","value":"uuid","min":0,"max":"unlimited"}}}}}}"#,
    )
    .unwrap();
    schema.tables["T"].clone()
}

fn wire(expression: &str) -> String {
    match parse(expression, "T", &table()) {
        Ok(clause) => serde_json::to_string(&clause).unwrap(),
        Err(error) => panic!("{error}"),
    }
}

fn problem(expression: &str) -> String {
    let error = parse(expression, "T", &table()).expect_err(expression);
    assert_eq!(error.expression, expression);
    error.problem
}

const UUID: &str = "8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11";

#[test]
fn expressions_become_clauses() {
    for (expression, clause) in [
        ("name=sw0", r#"["name","==","sw0"]"#),
        ("name==sw0", r#"["name","==","sw0"]"#),
        (" name = sw 0, and more ", r#"["name","==","sw 0, and more"]"#),
        ("name=", r#"["name","==",""]"#),
        (r#"name=" a=b ""#, r#"["name","=="," a=b "]"#),
        (r#"name!="é\n""#, r#"["name","!=","é\n"]"#),
        ("name=a=b", r#"["name","==","a=b"]"#),
        ("up=true", r#"["up","==",true]"#),
        ("up=[]", r#"["up","==",["set",[]]]"#),
        ("priority<100", r#"["priority","<",100]"#),
        ("priority <= -1", r#"["priority","<=",-1]"#),
        ("priority>9223372036854775806", r#"["priority",">",9223372036854775806]"#),
        ("tag>=5", r#"["tag",">=",5]"#),
        ("load>0.5", r#"["load",">",0.5]"#),
        ("load=1", r#"["load","==",1.0]"#),
        ("kind=router", r#"["kind","==","router"]"#),
        ("addresses=[]", r#"["addresses","==",["set",[]]]"#),
        ("addresses includes router", r#"["addresses","includes","router"]"#),
        (r#"addresses includes [b, "a, b", a]"#, r#"["addresses","includes",["set",["a","a, b","b"]]]"#),
        ("addresses excludes[x]", r#"["addresses","excludes","x"]"#),
        ("external_ids:owner=me", r#"["external_ids","includes",["map",[["owner","me"]]]]"#),
        (
            "external_ids:neutron:revision_number=3",
            r#"["external_ids","includes",["map",[["neutron:revision_number","3"]]]]"#,
        ),
        (r#"external_ids:"a=b"!="c d""#, r#"["external_ids","excludes",["map",[["a=b","c d"]]]]"#),
        ("external_ids={}", r#"["external_ids","==",["map",[]]]"#),
        ("external_ids=[]", r#"["external_ids","==",["map",[]]]"#),
        (r#"external_ids={b = "2,3", a=1}"#, r#"["external_ids","==",["map",[["a","1"],["b","2,3"]]]]"#),
    ] {
        assert_eq!(wire(expression), clause, "{expression}");
    }
    assert_eq!(wire(&format!("_uuid={UUID}")), format!(r#"["_uuid","==",["uuid","{UUID}"]]"#));
    assert_eq!(wire(&format!("ports includes {UUID}")), format!(r#"["ports","includes",["uuid","{UUID}"]]"#));
    assert_eq!(
        wire(&format!("queues:0={UUID}")),
        format!(r#"["queues","includes",["map",[[0,["uuid","{UUID}"]]]]]"#)
    );
}

#[test]
fn what_is_wrong_is_said_precisely() {
    for (expression, expected) in [
        ("", "a column's name comes first"),
        ("=x", "a column's name comes first"),
        ("nmae=x", "table T has no column `nmae`; did you mean `name`?"),
        (
            "zzzzzz=x",
            "table T has no column `zzzzzz`; it has addresses, external_ids, kind, load, name, ports, priority, queues, tag, up, _uuid",
        ),
        ("name", "behind the column comes one of =, !=, <, <=, >, >=, includes, excludes"),
        ("name~x", "behind the column comes one of =, !=, <, <=, >, >=, includes, excludes"),
        ("priority=high", "priority is an integer: `high` is no integer"),
        ("priority=1.5", "priority is an integer: `1.5` is no integer"),
        ("priority=9223372036854775808", "priority is an integer: `9223372036854775808` is no integer"),
        ("priority=[]", "priority is an integer and never empty"),
        ("load=NaN", "load is a real: `NaN` is no number"),
        ("up=yes", "up is an optional boolean: `yes` is neither true nor false"),
        ("kind=bridge", "kind is a string: `bridge` is none of router, switch"),
        ("name<5", "`<` compares single numbers, and name is a string"),
        ("addresses>1", "`>` compares single numbers, and addresses is a set of 0 or more strings"),
        ("tag<[]", "`<` needs a number"),
        ("name:key=1", "`name:` is for maps, and name is a string"),
        ("external_ids:a<1", "a pair of a map is compared with = or !=, not `<`"),
        (
            "external_ids=me",
            "external_ids is a map of 0 or more string-string pairs: write a map as {key=value, ...}, or column:key=value",
        ),
        (
            "external_ids={a}",
            "external_ids is a map of 0 or more string-string pairs: `=` is missing behind `a`",
        ),
        ("queues:x=y", "the key of queues: `x` is no integer"),
        ("queues:1=y", "the value of queues: `y` is no UUID"),
        (r#"name="x"#, "name is a string: `\"x` is no JSON string: a quote is missing or an escape is wrong"),
        (r#"name="x" y"#, "name is a string: unexpected `y` behind the value"),
        (r#"addresses=["x" y]"#, "addresses is a set of 0 or more strings: unexpected `y` behind an element"),
    ] {
        assert_eq!(problem(expression), expected, "{expression}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(expression in "\\PC*") {
        let _ = parse(&expression, "T", &table());
    }

    #[test]
    fn nothing_behind_a_column_panics(column in "name|tag|ports|external_ids|queues", rest in "[:=!<>\\[\\]{}\", a1é\\\\]{0,20}") {
        let _ = parse(&format!("{column}{rest}"), "T", &table());
    }

    #[test]
    fn any_string_can_be_asked_for(value in "\\PC*") {
        let expression = format!("name={}", serde_json::to_string(&value).unwrap());
        let clause = parse(&expression, "T", &table()).unwrap();
        prop_assert_eq!(clause.value, Datum::from(Atom::from(value.as_str())));
    }
}
