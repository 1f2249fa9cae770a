use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Ini {
    let mut ini = Ini::default();
    ini.read("a.conf", text).unwrap();
    ini
}

fn shown(text: &str) -> Vec<String> {
    read(text)
        .entries
        .iter()
        .map(|e| format!("{}/{}={:?}@{}", e.section, e.name, e.value, e.place.line))
        .collect()
}

#[test]
fn the_dialect() {
    let text = "# comment\n; comment\n\nearly = 1\n[DEFAULT]\nname = a value \nNAME-TWO: b\n\
                quoted = \"x y\"\nsingle='z'\nhalf = \"x\nmany = a,\n   b ,\n\tc\n[ Ovn ]\nempty =\nurl = tcp:h:1=2\n";
    assert_eq!(
        shown(text),
        [
            r#"DEFAULT/early="1"@4"#,
            r#"DEFAULT/name="a value"@6"#,
            r#"DEFAULT/name_two="b"@7"#,
            r#"DEFAULT/quoted="x y"@8"#,
            r#"DEFAULT/single="z"@9"#,
            r#"DEFAULT/half="\"x"@10"#,
            r#"DEFAULT/many="a,\nb ,\nc"@11"#,
            r#"ovn/empty=""@15"#,
            r#"ovn/url="tcp:h:1=2"@16"#,
        ]
    );
}

#[test]
fn colon_or_equals_whichever_comes_first() {
    assert_eq!(shown("a = unix:/x"), [r#"DEFAULT/a="unix:/x"@1"#]);
    assert_eq!(shown("a: b=c"), [r#"DEFAULT/a="b=c"@1"#]);
}

#[test]
fn line_ends_and_marks_of_other_systems_do_no_harm() {
    assert_eq!(shown("\u{feff}[a]\r\nb = c\r\n"), [r#"a/b="c"@2"#]);
}

#[test]
fn what_is_wrong_names_the_line() {
    for (text, line, what) in [
        ("a = 1\n\n  b\n", 3, IniProblem::Continuation),
        (" a\n", 1, IniProblem::Continuation),
        ("a = 1\n# x\n  b\n", 3, IniProblem::Continuation),
        ("[a\n", 1, IniProblem::Section),
        ("[]\n", 1, IniProblem::Section),
        ("a = 1\nfoo\n", 2, IniProblem::Assignment),
        ("= 1\n", 1, IniProblem::Name),
    ] {
        let error = Ini::default().read("f", text).unwrap_err();
        assert_eq!((error.place.line, error.what), (line, what), "{text:?}");
    }
    let error = Ini::default().read("f.conf", "foo").unwrap_err();
    assert_eq!(error.to_string(), "f.conf:1: neither a comment, nor [section], nor name = value");
}

#[test]
fn a_file_does_not_continue_the_one_before() {
    let mut ini = read("a = 1");
    assert!(ini.read("b.conf", "  2").is_err());
}

#[test]
fn later_values_win_and_all_are_kept() {
    let mut ini = read("a = 1\na = 2");
    ini.read("b.conf", "[default]\nA = 3").unwrap();
    assert_eq!(ini.get("DEFAULT", "a").as_deref(), Some("3"));
    assert_eq!(ini.entries.len(), 3);
    assert_eq!(ini.get("ovn", "a"), None);
}

#[test]
fn references_between_values() {
    let ini = read(
        "dir = /etc\nfile = $dir/x\nbraced = ${dir}x\nother = $ovn.key.pem\nboth = ${ovn.key}\nmoney = $$5\n\
         unknown = $nowhere/x\nloop = a$loop\nopen = ${dir\n[ovn]\nkey = $dir/k\n",
    );
    for (name, value) in [
        ("file", "/etc/x"),
        ("braced", "/etcx"),
        ("both", "/etc/k"),
        ("money", "$5"),
        ("unknown", "$nowhere/x"),
        ("open", "${dir"),
        ("loop", "aaaaaaaaa$loop"),
    ] {
        assert_eq!(ini.get("DEFAULT", name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(ini.get("ovn", "key").as_deref(), Some("/etc/k"));
}

#[test]
fn words_and_lists() {
    for (text, value) in
        [("Yes", Some(true)), (" on ", Some(true)), ("FALSE", Some(false)), ("0", Some(false))]
    {
        assert_eq!(boolean(text), value);
    }
    assert_eq!((boolean(""), boolean("2"), boolean("nope")), (None, None, None));
    assert_eq!(list("a, b ,,\nc"), ["a", "b", "c"]);
    assert_eq!(list("['a', \"b\"]"), ["a", "b"]);
    assert_eq!(list(" "), [""; 0]);
}

proptest! {
    #[test]
    fn no_text_does_harm(text in "([a-c$.{}=:\\[\\]#; \t\n\"']|é){0,60}") {
        let mut ini = Ini::default();
        let _ = ini.read("f", &text);
        for entry in &ini.entries {
            prop_assert!(!entry.name.is_empty() && !entry.section.is_empty());
            let _ = ini.value(entry);
        }
    }

    #[test]
    fn plain_assignments_come_back(pairs in proptest::collection::vec(("[a-z_]{1,8}", "[a-z0-9:/.]{0,10}"), 0..6)) {
        let text: String = pairs.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        let read = read(&text).entries.into_iter().map(|e| (e.name, e.value)).collect::<Vec<_>>();
        prop_assert_eq!(read, pairs);
    }
}
