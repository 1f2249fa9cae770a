//! `#[derive(Table)]`: a struct becomes an OVSDB table, its fields the columns.
//!
//! ```text
//! #[derive(Clone, Debug, Default, PartialEq, Table)]
//! #[ovsdb(database = "OVN_Southbound", table = "Port_Binding")]
//! pub struct PortBinding {
//!     pub logical_port: Str,
//!     #[ovsdb(column = "type")]
//!     pub kind: Str,
//!     #[ovsdb(optional)]
//!     pub additional_chassis: Set<Weak<Chassis>>,
//! }
//! ```
//!
//! On a field: `column = "name"` if the name differs from the field's, `optional` for columns that some servers lack,
//! `write_only` for columns that are written but not monitored. Each column also gets a constant, `PortBinding::LOGICAL_PORT`,
//! by which conditions and transactions name it: an `ovsdb::Column` of this table and of the field's type.

use darling::{FromDeriveInput, FromField, ast};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Ident, Type, parse_macro_input};

#[derive(FromDeriveInput)]
#[darling(attributes(ovsdb), supports(struct_named))]
struct TableInput {
    ident: Ident,
    vis: syn::Visibility,
    generics: syn::Generics,
    data: ast::Data<(), ColumnInput>,
    database: String,
    table: String,
}

#[derive(FromField)]
#[darling(attributes(ovsdb))]
struct ColumnInput {
    ident: Option<Ident>,
    ty: Type,
    #[darling(default)]
    column: Option<String>,
    #[darling(default)]
    optional: bool,
    #[darling(default)]
    write_only: bool,
}

/// Implements `ovsdb::Table`.
#[proc_macro_derive(Table, attributes(ovsdb))]
pub fn derive_table(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(&parse_macro_input!(input as DeriveInput)).into()
}

fn derive(input: &DeriveInput) -> TokenStream {
    match TableInput::from_derive_input(input) {
        Ok(table) => expand(table),
        Err(error) => error.write_errors(),
    }
}

const MOST_COLUMNS: usize = 64;

fn expand(input: TableInput) -> TokenStream {
    let TableInput { ident, vis, generics, data, database, table } = input;
    if !generics.params.is_empty() {
        return syn::Error::new_spanned(&ident, "a table has no generic parameters").to_compile_error();
    }
    let fields = data.take_struct().map(|fields| fields.fields).unwrap_or_default();
    if fields.len() > MOST_COLUMNS {
        return syn::Error::new_spanned(&ident, "a table holds at most 64 columns").to_compile_error();
    }
    let idents: Vec<_> = fields.iter().filter_map(|f| f.ident.as_ref()).collect();
    let types: Vec<_> = fields.iter().map(|f| &f.ty).collect();
    let bare = |ident: &Ident| ident.to_string().trim_start_matches("r#").to_owned();
    let names: Vec<_> = fields
        .iter()
        .zip(&idents)
        .map(|(f, ident)| f.column.clone().unwrap_or_else(|| bare(ident)))
        .collect();
    let constants: Vec<_> =
        idents.iter().map(|ident| format_ident!("{}", bare(ident).to_uppercase())).collect();
    let constant_docs: Vec<_> = names.iter().map(|name| format!("The column `{name}`.")).collect();
    let optional: Vec<_> = fields.iter().map(|f| f.optional).collect();
    let write_only: Vec<_> = fields.iter().map(|f| f.write_only).collect();
    let positions: Vec<usize> = (0..fields.len()).collect();

    quote! {
        impl #ident {
            #(#[doc = #constant_docs] #vis const #constants: ::ovsdb::Column<#ident, #types> = ::ovsdb::Column::at(#positions);)*
        }

        impl ::ovsdb::Table for #ident {
            const DATABASE: &'static str = #database;
            const TABLE: &'static str = #table;
            const COLUMNS: &'static [::ovsdb::model::ColumnSpec] = &[#(::ovsdb::model::ColumnSpec {
                name: #names,
                shape: <#types as ::ovsdb::model::ColumnType>::SHAPE,
                optional: #optional,
                write_only: #write_only,
            }),*];

            fn position(column: &str) -> ::core::option::Option<usize> {
                match column {
                    #(#names => ::core::option::Option::Some(#positions),)*
                    _ => ::core::option::Option::None,
                }
            }

            fn decode(
                &mut self,
                column: usize,
                diff: bool,
                value: &mut ::ovsdb::wire::Cursor<'_>,
            ) -> ::core::result::Result<(), ::ovsdb::derived::Error> {
                match column {
                    #(#positions => ::ovsdb::model::ColumnType::decode(&mut self.#idents, diff, value),)*
                    _ => ::core::result::Result::Ok(()),
                }
            }

            fn set(
                &mut self,
                column: usize,
                datum: &::ovsdb::wire::Datum,
            ) -> ::core::result::Result<(), ::ovsdb::wire::ValueError> {
                match column {
                    #(#positions => self.#idents = ::ovsdb::model::ColumnType::from_datum(datum)?,)*
                    _ => {}
                }
                ::core::result::Result::Ok(())
            }

            fn datum(&self, column: usize) -> ::ovsdb::wire::Datum {
                match column {
                    #(#positions => ::ovsdb::model::ColumnType::to_datum(&self.#idents),)*
                    _ => ::core::default::Default::default(),
                }
            }

            fn write_json(&self, column: usize, out: &mut ::std::vec::Vec<u8>) {
                match column {
                    #(#positions => ::ovsdb::model::ColumnType::write_json(&self.#idents, out),)*
                    _ => {}
                }
            }

            fn is_blank(&self, column: usize) -> bool {
                match column {
                    #(#positions => ::ovsdb::model::ColumnType::is_blank(&self.#idents),)*
                    _ => true,
                }
            }

            fn mutation(&self, column: usize, after: &Self) -> ::core::option::Option<::ovsdb::model::Mutation> {
                match column {
                    #(#positions => ::ovsdb::model::ColumnType::mutation(&self.#idents, &after.#idents),)*
                    _ => ::core::option::Option::None,
                }
            }

            fn agrees(&self, other: &Self, column: usize) -> bool {
                match column {
                    #(#positions => self.#idents == other.#idents,)*
                    _ => true,
                }
            }

            fn differing(&self, other: &Self) -> ::ovsdb::model::ColumnSet {
                let mut columns = ::ovsdb::model::ColumnSet::EMPTY;
                #(if self.#idents != other.#idents {
                    columns.insert(#positions);
                })*
                columns
            }
        }
    }
}

#[cfg(test)]
mod tests;
