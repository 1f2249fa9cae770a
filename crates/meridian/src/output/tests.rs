use super::*;
use ovsdb::wire::Datum;
use ovsdb::wire::{ColumnKind, DatabaseSchema};
use proptest::prelude::*;

fn kind(kind: &str) -> ColumnKind {
    let text = format!(
        r#"{{"name":"d","version":"1.0.0","tables":{{"T":{{"columns":{{"c":{{"type":{kind}}}}}}}}}}}"#
    );
    DatabaseSchema::parse(&text).unwrap().tables["T"].columns["c"].kind.clone()
}

const SET: &str = r#"{"key":"string","min":0,"max":"unlimited"}"#;
const MAP: &str = r#"{"key":"string","value":"integer","min":0,"max":"unlimited"}"#;
const OPTIONAL: &str = r#"{"key":"string","min":0}"#;

#[test]
fn the_type_decides_the_shape() {
    let uuid = r#"["uuid","8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11"]"#;
    for (typed, wire, json, shown, csv) in [
        (r#""string""#, r#""a b""#, r#""a b""#, "a b", "a b"),
        (r#""string""#, r#""""#, r#""""#, "", ""),
        (
            r#""integer""#,
            "9223372036854775807",
            "9223372036854775807",
            "9223372036854775807",
            "9223372036854775807",
        ),
        (r#""boolean""#, "true", "true", "true", "true"),
        (r#""real""#, "1.5", "1.5", "1.5", "1.5"),
        (
            r#""uuid""#,
            uuid,
            r#""8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11""#,
            "8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11",
            "8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11",
        ),
        (OPTIONAL, r#"["set",[]]"#, "null", "", ""),
        (OPTIONAL, r#""x""#, r#""x""#, "x", "x"),
        (SET, r#"["set",[]]"#, "[]", "[]", "[]"),
        (SET, r#""x""#, r#"["x"]"#, "[x]", r#""[""x""]""#),
        (SET, r#"["set",["b","a"]]"#, r#"["a","b"]"#, "[a, b]", r#""[""a"",""b""]""#),
        (MAP, r#"["map",[]]"#, "{}", "{}", "{}"),
        (MAP, r#"["map",[["k",1]]]"#, r#"{"k":1}"#, "{k=1}", r#""{""k"":1}""#),
        (
            r#"{"key":"integer","value":"uuid","min":0,"max":"unlimited"}"#,
            &format!(r#"["map",[[7,{uuid}]]]"#),
            r#"{"7":"8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11"}"#,
            "{7=8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11}",
            r#""{""7"":""8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11""}""#,
        ),
    ] {
        let kind = kind(typed);
        let datum: Datum = serde_json::from_str(wire).unwrap();
        let value = Natural { datum: &datum, kind: &kind };
        assert_eq!(serde_json::to_string(&value).unwrap(), json, "{typed} {wire}");
        assert_eq!(cell(value), shown, "{typed} {wire}");
        assert_eq!(csv_row(&[value]), csv, "{typed} {wire}");
    }
}

#[test]
fn rows_keep_the_order_of_their_columns() {
    let (text, number) = (kind(r#""string""#), kind(r#""integer""#));
    let (z, a): (Datum, Datum) =
        (serde_json::from_str(r#""z""#).unwrap(), serde_json::from_str("1").unwrap());
    let row = NaturalRow(vec![
        ("z", Natural { datum: &z, kind: &text }),
        ("a", Natural { datum: &a, kind: &number }),
    ]);
    assert_eq!(serde_json::to_string(&row).unwrap(), r#"{"z":"z","a":1}"#);
}

#[test]
fn csv_quotes_where_it_must() {
    assert_eq!(csv_line(["a", "b,c", "d\"e", "f\ng", " h", ""]), "a,\"b,c\",\"d\"\"e\",\"f\ng\",\" h\",");
}

#[test]
fn tables_line_up() {
    let mut table = Table::new(["name", "ports"]);
    table.row(["sw0", "[]"]);
    table.row(["größer", "[a, b]"]);
    table.row(["宽", "\u{1b}[31m\n"]);
    assert_eq!(
        table.render(false),
        "name    ports\n\
         ------  ------------\n\
         sw0     []\n\
         größer  [a, b]\n\
         宽      \\u{1b}[31m\\n\n"
    );
    assert_eq!(
        Table::new(["a", "b"]).render(true),
        "\x1b[1ma\x1b[0m  \x1b[1mb\x1b[0m\n\x1b[2m-\x1b[0m  \x1b[2m-\x1b[0m\n"
    );
}

/// Reads one line of RFC 4180.
fn read_csv(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut inside, mut chars) = (false, line.chars().peekable());
    while let Some(c) = chars.next() {
        let cell = cells.last_mut().unwrap();
        match c {
            '"' if inside && chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
            '"' => inside = !inside,
            ',' if !inside => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells
}

proptest! {
    #[test]
    fn csv_reads_back(cells in proptest::collection::vec("[a-c,\" \n\r]{0,6}", 1..5)) {
        prop_assert_eq!(read_csv(&csv_line(cells.iter().map(String::as_str))), cells);
    }
}
