//! The errors of the derive and their messages. The generated code is tested where it is used.

use quote::quote;
use syn::{DeriveInput, parse_quote};

use super::{MOST_COLUMNS, derive};

/// The compiler error for a refused input.
fn refusal(input: &DeriveInput) -> String {
    let made = derive(input).to_string();
    assert!(made.contains("compile_error !"), "it was taken: {made}");
    assert!(!made.contains("impl"), "an error stands alone: {made}");
    made
}

#[test]
fn only_structs_with_names_are_tables() {
    for (input, shape) in [
        (
            parse_quote!(
                #[ovsdb(database = "D", table = "T")]
                enum T {
                    A { name: Str },
                }
            ),
            "enum",
        ),
        (
            parse_quote!(
                #[ovsdb(database = "D", table = "T")]
                struct T(Str);
            ),
            "one unnamed field",
        ),
        (
            parse_quote!(
                #[ovsdb(database = "D", table = "T")]
                struct T(Str, Str);
            ),
            "unnamed fields",
        ),
        (
            parse_quote!(
                #[ovsdb(database = "D", table = "T")]
                struct T;
            ),
            "no fields",
        ),
    ] {
        let refused = refusal(&input);
        assert!(refused.contains(&format!("Unsupported shape `{shape}`. Expected ")), "{refused}");
        assert!(refused.contains("named fields."), "{refused}");
    }
}

#[test]
fn a_table_has_no_parameters() {
    for parameters in [quote!(<A>), quote!(<'a>), quote!(<const N: usize>)] {
        let refused = refusal(&parse_quote!(
            #[ovsdb(database = "D", table = "T")] struct T #parameters { name: Str }
        ));
        assert!(refused.contains("a table has no generic parameters"), "{refused}");
    }
}

#[test]
fn a_table_has_as_many_columns_as_a_set_of_them_can_hold() {
    let table = |count: usize| -> DeriveInput {
        let names = (0..count).map(|n| quote::format_ident!("column{n}"));
        parse_quote!(#[ovsdb(database = "D", table = "T")] struct T { #(#names: Str),* })
    };
    assert!(!derive(&table(MOST_COLUMNS)).to_string().contains("compile_error"));
    let refused = refusal(&table(MOST_COLUMNS + 1));
    assert!(refused.contains("a table holds at most 64 columns"), "{refused}");
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    for (input, wanted) in [
        (
            parse_quote!(
                #[ovsdb(table = "T")]
                struct T {
                    name: Str,
                }
            ),
            "Missing field `database`",
        ),
        (
            parse_quote!(
                #[ovsdb(database = "D")]
                struct T {
                    name: Str,
                }
            ),
            "Missing field `table`",
        ),
        (
            parse_quote!(
                #[ovsdb(database = "D", table = "T")]
                struct T {
                    #[ovsdb(colum = "n")]
                    name: Str,
                }
            ),
            "Unknown field: `colum`",
        ),
    ] {
        let refused = refusal(&input);
        assert!(refused.contains(wanted), "{refused}");
    }
}
