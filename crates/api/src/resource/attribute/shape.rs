//! The shapes of attribute values: the check, the normal form and the JSON schema of each.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::dialect::Misfit;
use crate::model::{GivenAddress, GivenCidr};

/// The accepted values of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`. Clients also send strings and 0 or 1.
    Bool,
    /// Any string up to a length.
    Text {
        /// The maximum number of characters.
        max: usize,
    },
    /// A string that a function parses and normalizes.
    Word {
        /// The format, for the API document.
        format: &'static str,
        /// The parser; its error becomes a part of the response.
        parse: fn(&str) -> Result<String, String>,
    },
    /// The same, but an integer is accepted as its digits.
    WordOrNumber {
        /// The format, for the API document.
        format: &'static str,
        /// The parser; its error becomes a part of the response.
        parse: fn(&str) -> Result<String, String>,
    },
    /// A UUID in its hyphenated form.
    Uuid,
    /// An integer in a range, or a string with one.
    Integer {
        /// The minimum, included.
        min: i64,
        /// The maximum, included.
        max: i64,
    },
    /// A count without a limit. Only in responses, see [`numeral`](crate::resource::view::numeral).
    Count,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An IPv4 or IPv6 address.
    Address,
    /// An address and a prefix length.
    Cidr,
    /// An address in the spelling of the request.
    GivenAddress,
    /// An address and a prefix length in the spelling of the request.
    GivenCidr,
    /// A MAC address.
    Mac,
    /// A time in the format of responses.
    Time,
    /// A list.
    List {
        /// The shape of its elements.
        of: &'static Shape,
        /// The maximum number of elements.
        max: usize,
        /// Whether duplicates are refused.
        unique: bool,
    },
    /// An object with known keys.
    Object(&'static [Field]),
    /// An object with any keys.
    Free,
    /// The shape, or `null`.
    Nullable(&'static Shape),
    /// Any value. Only in responses.
    Any,
}

/// One key of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether the key is mandatory.
    pub required: bool,
}

impl Field {
    /// An optional key.
    pub const fn new(name: &'static str, shape: Shape) -> Self {
        Field { name, shape, required: false }
    }

    /// A mandatory key.
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Field { name, shape, required: true }
    }
}

/// A tag.
pub(super) const TAG: Shape = Shape::Word { format: "tag", parse: crate::resource::tags::parse };

impl Shape {
    /// Whether values are scalars, rather than lists or objects.
    pub const fn is_plain(&self) -> bool {
        match self {
            Shape::List { .. } | Shape::Object(_) | Shape::Free | Shape::Any | Shape::Count => false,
            Shape::Nullable(of) => of.is_plain(),
            _ => true,
        }
    }

    /// The value in its normal form, or an error.
    pub fn check(&self, value: &Value) -> Result<Value, String> {
        match self {
            Shape::Nullable(_) if value.is_null() => Ok(Value::Null),
            Shape::Nullable(of) => of.check(value),
            Shape::Any | Shape::Count => Ok(value.clone()),
            Shape::Bool => truth(value).map(Value::Bool),
            Shape::Text { max } => text(value, *max).map(Value::from),
            Shape::Word { parse, .. } => parse(text(value, LONGEST)?).map(Value::from),
            Shape::WordOrNumber { parse, .. } => match value.as_i64() {
                Some(number) => parse(&number.to_string()).map(Value::from),
                None => parse(text(value, LONGEST)?).map(Value::from),
            },
            Shape::Uuid => uuid(text(value, LONGEST)?).map(|uuid| uuid.to_string().into()),
            Shape::Integer { min, max } => integer(value, *min, *max).map(Value::from),
            Shape::OneOf(words) => {
                let word = text(value, LONGEST)?;
                match words.iter().find(|known| **known == word) {
                    Some(known) => Ok(Value::from(*known)),
                    None => Err(format!("'{word}' is not in ({})", quoted(words))),
                }
            }
            Shape::Address => {
                let text = text(value, LONGEST)?;
                let address: Result<IpAddr, _> = text.parse();
                address
                    .map(|it| it.to_string().into())
                    .map_err(|_| format!("'{text}' is not a valid IP address"))
            }
            Shape::Cidr => {
                let text = text(value, LONGEST)?;
                let prefix: Result<IpNet, _> = text.parse();
                prefix
                    .map(|it| it.to_string().into())
                    .map_err(|_| format!("'{text}' is not a valid IP subnet"))
            }
            Shape::GivenAddress => {
                let text = text(value, LONGEST)?;
                let address: Result<GivenAddress, _> = text.parse();
                address.map(|_| text.into()).map_err(|_| "Value should be IPv4 or IPv6 format".to_owned())
            }
            Shape::GivenCidr => {
                let text = text(value, LONGEST)?;
                let prefix: Result<GivenCidr, _> = text.parse();
                prefix.map(|_| text.into()).map_err(|_| "Value should be IPv4 or IPv6 CIDR format".to_owned())
            }
            Shape::Mac => {
                let text = text(value, LONGEST)?;
                // Some clients send dashes; responses have colons.
                let mac: Result<MacAddr, _> = text.replace('-', ":").parse();
                mac.map(|it| it.to_string().into())
                    .map_err(|_| format!("'{text}' is not a valid MAC address"))
            }
            Shape::Time => {
                let text = text(value, LONGEST)?;
                let time: Result<jiff::Timestamp, _> = text.parse();
                time.map(|it| it.to_string().into()).map_err(|_| format!("'{text}' is not a valid time"))
            }
            Shape::List { of, max, unique } => list(value, of, *max, *unique),
            Shape::Object(fields) => object(value, fields).map(Value::Object),
            Shape::Free => match value {
                Value::Object(_) if has_nul(value) => Err(NUL.to_owned()),
                Value::Object(_) => Ok(value.clone()),
                other => Err(format!("'{}' is not a dictionary", shown(other))),
            },
        }
    }

    /// Why a value does not fit, for wrong strings of `Shape::OneOf` and integers out of range.
    pub fn misfit(&self, value: &Value) -> Option<Misfit> {
        match self {
            Shape::Nullable(of) => of.misfit(value),
            Shape::OneOf(words) => Some(Misfit::NotOneOf(words)),
            Shape::Integer { min, max } => match integer(value, i64::MIN, i64::MAX).ok()? {
                number if number < *min => Some(Misfit::Below(*min)),
                number if number > *max => Some(Misfit::Above(*max)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The JSON schema, for the API document.
    pub fn schema(&self) -> Value {
        match self {
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Text { max } => json!({"type": "string", "maxLength": max}),
            Shape::Word { format, .. } => json!({"type": "string", "format": format}),
            Shape::WordOrNumber { format, .. } => json!({"type": ["string", "integer"], "format": format}),
            Shape::Uuid => json!({"type": "string", "format": "uuid"}),
            Shape::Integer { min, max } if *max == i64::MAX => json!({"type": "integer", "minimum": min}),
            Shape::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Shape::Count => json!({"type": "integer", "minimum": 0}),
            Shape::OneOf(words) => json!({"type": "string", "enum": words}),
            Shape::Address | Shape::GivenAddress => {
                json!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
            }
            Shape::Cidr | Shape::GivenCidr => json!({"type": "string", "format": "cidr"}),
            Shape::Mac => json!({"type": "string", "format": "mac-address"}),
            Shape::Time => json!({"type": "string", "format": "date-time"}),
            Shape::List { of, max, unique } => {
                let mut schema = json!({"type": "array", "items": of.schema()});
                if *max != usize::MAX {
                    schema["maxItems"] = (*max).into();
                }
                if *unique {
                    schema["uniqueItems"] = true.into();
                }
                schema
            }
            Shape::Object(fields) => {
                let properties: Map<_, _> =
                    fields.iter().map(|field| (field.name.to_owned(), field.shape.schema())).collect();
                let required: Vec<_> =
                    fields.iter().filter(|field| field.required).map(|field| field.name).collect();
                let mut schema =
                    json!({"type": "object", "properties": properties, "additionalProperties": false});
                if !required.is_empty() {
                    schema["required"] = required.into();
                }
                schema
            }
            Shape::Free => json!({"type": "object"}),
            Shape::Nullable(of) => match of.schema() {
                Value::Object(mut schema) if schema.contains_key("type") && !schema.contains_key("enum") => {
                    let mut types = match schema.remove("type").unwrap_or_default() {
                        Value::Array(types) => types,
                        one => vec![one],
                    };
                    types.push("null".into());
                    schema.insert("type".into(), types.into());
                    Value::Object(schema)
                }
                schema => json!({"anyOf": [schema, {"type": "null"}]}),
            },
            Shape::Any => json!({}),
        }
    }
}

/// The maximum length of strings with a format, longer than any valid one.
const LONGEST: usize = 4096;

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Number(number) if number.as_u64() == Some(0) => Ok(false),
        Value::Number(number) if number.as_u64() == Some(1) => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("true") || text == "1" => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") || text == "0" => Ok(false),
        other => Err(format!("'{}' cannot be converted to boolean", shown(other))),
    }
}

fn text(value: &Value, max: usize) -> Result<&str, String> {
    let Value::String(text) = value else {
        return Err(format!("'{}' is not a valid string", shown(value)));
    };
    if text.contains('\0') {
        return Err(NUL.to_owned());
    }
    // The length in bytes is never less than that in characters, so short strings need no count.
    if text.len() > max && text.chars().count() > max {
        return Err(format!("'{}' exceeds maximum length of {max}", shown(value)));
    }
    Ok(text)
}

/// Neither PostgreSQL's TEXT nor OVSDB's strings can hold it.
const NUL: &str = "it contains a NUL character";

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(elements) => elements.iter().any(has_nul),
        Value::Object(pairs) => pairs.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn uuid(text: &str) -> Result<Uuid, String> {
    let parsed = if text.len() == 36 { Uuid::try_parse(text).ok() } else { None };
    parsed.ok_or_else(|| format!("'{text}' is not a valid UUID"))
}

fn integer(value: &Value, min: i64, max: i64) -> Result<i64, String> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let Some(number) = number else {
        return Err(format!("'{}' is not an integer", shown(value)));
    };
    if number < min {
        return Err(format!("'{number}' is too small - must be at least '{min}'"));
    }
    if number > max {
        return Err(format!("'{number}' is too large - must be no larger than '{max}'"));
    }
    Ok(number)
}

fn list(value: &Value, of: &Shape, max: usize, unique: bool) -> Result<Value, String> {
    let Value::Array(elements) = value else {
        return Err(format!("'{}' is not a list", shown(value)));
    };
    if elements.len() > max {
        return Err(format!("it has {} elements, and {max} is the most", elements.len()));
    }
    let mut checked = Vec::with_capacity(elements.len());
    for element in elements {
        let element = of.check(element)?;
        if unique && checked.contains(&element) {
            return Err(format!("Duplicate items in the list: '{}'", shown(&element)));
        }
        checked.push(element);
    }
    Ok(Value::Array(checked))
}

fn object(value: &Value, fields: &[Field]) -> Result<Map<String, Value>, String> {
    let Value::Object(given) = value else {
        return Err(format!("'{}' is not a dictionary", shown(value)));
    };
    if let Some(unknown) = given.keys().find(|key| !fields.iter().any(|field| field.name == *key)) {
        return Err(format!("'{unknown}' is not one of its keys ({})", quoted_names(fields)));
    }
    let mut checked = Map::new();
    for field in fields {
        match given.get(field.name) {
            Some(value) => {
                let value = field.shape.check(value).map_err(|reason| format!("{}: {reason}", field.name))?;
                checked.insert(field.name.to_owned(), value);
            }
            None if field.required => return Err(format!("'{}' is missing in it", field.name)),
            None => {}
        }
    }
    Ok(checked)
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

fn quoted_names(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("'{}'", field.name)).collect::<Vec<_>>().join(", ")
}

/// A value for an error message: strings without quotes, and long values cut.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
