//! Keywords: columns whose string is one of a few known ones, by schema or by convention.

/// Declares an enum over the strings of a column. Strings that are not listed become `Other`, so that keywords of a newer OVN stay
/// unchanged. The first variant is the default.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$vmeta])* $variant,)+
            /// A string this version does not know.
            Other(smol_str::SmolStr),
        }

        impl $name {
            /// The listed keywords in order of declaration.
            $vis const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The string as the database holds it.
            $vis fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)+
                    $name::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => $name::$variant,)+
                    other => $name::Other(smol_str::SmolStr::new(other)),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::from(Self::KNOWN[0])
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl ovsdb::wire::FromAtom for $name {
            fn from_atom(
                atom: ovsdb::wire::AtomRef<'_>,
            ) -> Result<Self, ovsdb::wire::ValueError> {
                match atom {
                    ovsdb::wire::AtomRef::String(text) => Ok($name::from(text)),
                    other => Err(ovsdb::wire::ValueError::new("string", other)),
                }
            }
        }

        impl ovsdb::model::AtomType for $name {
            const KIND: ovsdb::wire::AtomKind = ovsdb::wire::AtomKind::String;

            fn to_atom(&self) -> ovsdb::wire::Atom {
                ovsdb::wire::Atom::from(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    words! {
        /// Keywords for the tests.
        enum Fruit {
            /// Red.
            Apple = "apple",
            /// The empty string.
            None = "",
        }
    }

    #[test]
    fn unknown_words_survive() {
        assert_eq!(Fruit::from("apple"), Fruit::Apple);
        assert_eq!(Fruit::from(""), Fruit::None);
        assert_eq!(Fruit::from("pear").to_string(), "pear");
        assert_eq!(Fruit::default(), Fruit::Apple);
        assert_eq!(Fruit::KNOWN, ["apple", ""]);
        assert_eq!(format!("{:?}", Fruit::Apple), "\"apple\"");
    }
}
