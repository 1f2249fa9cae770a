//! Bodies for the OVSDB wire format.

use std::borrow::Cow;

use ovn::sb::{Chassis, PortBinding};
use ovsdb::Table;
use ovsdb::wire::Cursor;
use ovsdb::wire::DatabaseSchema;
use ovsdb::wire::Datum;
use ovsdb::wire::Message;
use ovsdb::wire::{FrameError, FrameSplitter};
use serde_json::value::RawValue;

/// Small, so that the limit itself is met often.
const LIMIT: usize = 4096;

/// A size above the limit up to which a splitter lends a text; it passes on the memory of a larger one.
const LARGE: usize = 1 << 17;

/// A stream is split into JSON texts. The result must not depend on the pieces in which the stream arrives, nor on whether texts are
/// borrowed or owned. The first byte is the size of the pieces. The first NUL, which is invalid in a text, is replaced with very many
/// bytes.
pub fn frame(data: &[u8]) {
    let Some((&step, stream)) = data.split_first() else { return };
    let mut limit = LIMIT;
    let mut stream = stream.to_vec();
    if let Some(at) = stream.iter().position(|byte| *byte == 0) {
        stream.splice(at..=at, std::iter::repeat_n(b'x', LARGE));
        limit += LARGE;
    }
    let mut step = usize::from(step) + 1;
    let lent = frames(limit, std::iter::once(&*stream), lend);
    let taken = frames(limit, std::iter::once(&*stream), FrameSplitter::take_frame);
    assert_eq!(lent, taken, "lent and taken");
    if limit > LIMIT {
        step *= 1024;
    }
    let pieces = frames(limit, stream.chunks(step), FrameSplitter::take_frame);
    // With a limit, the splitter may reject a text that is too long before or after its end has arrived. The result must be the same either
    // way.
    assert_eq!(lent, pieces, "cut into pieces of {step}");
    for text in &lent.0 {
        assert!(text.len() <= limit);
        assert!(matches!(text.first(), Some(b'{' | b'[')));
    }
}

fn lend(splitter: &mut FrameSplitter) -> Result<Option<Cow<'_, [u8]>>, FrameError> {
    Ok(splitter.next_frame()?.map(Cow::Borrowed))
}

type Next = fn(&mut FrameSplitter) -> Result<Option<Cow<'_, [u8]>>, FrameError>;

fn frames<'a>(
    limit: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    next: Next,
) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut splitter = FrameSplitter::new(limit);
    let mut texts = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        loop {
            match next(&mut splitter) {
                Ok(Some(text)) => texts.push(text.into_owned()),
                Ok(None) => break,
                Err(error) => return (texts, Some(error)),
            }
        }
    }
    (texts, None)
}

/// A JSON-RPC message; if it parses, it can be written again and parses to the same.
pub fn message(data: &[u8]) {
    let Ok(message) = Message::parse(data) else { return };
    let again = match &message {
        Message::Request { id, method, params } => {
            format!(r#"{{"id":{id},"method":{},"params":{params}}}"#, quoted(method))
        }
        Message::Notification { method, params } => {
            format!(r#"{{"id":null,"method":{},"params":{params}}}"#, quoted(method))
        }
        Message::Reply { id, result } => ovsdb::wire::reply(id, result),
        Message::Error { id, error } => ovsdb::wire::refusal(id, error),
    };
    let again = Message::parse(again.as_bytes()).expect("what a message holds makes a message");
    assert_eq!(std::mem::discriminant(&message), std::mem::discriminant(&again));
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A database schema; if it parses, each default is a valid value of its column, and the schema can be compared with our tables.
pub fn schema(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(schema) = DatabaseSchema::parse(text) else { return };
    for column in schema.tables.values().flat_map(|table| table.columns.values()) {
        let default = column.kind.default_datum();
        assert_eq!(column.kind.coerce(default.clone()), default);
        let _ = column.kind.to_string();
    }
    for table in ovn::nb::model().iter().chain(ovn::sb::model()).chain(ovn::vswitch::model()) {
        let _ = table.fit(&schema);
    }
}

/// Untyped values: two of them on two lines. Their printed JSON parses to the same values, and applying their difference to one gives the
/// other.
pub fn datum(data: &[u8]) {
    let mut datums =
        data.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Datum>(line).ok());
    let Some(before) = datums.next() else { return };
    let json = serde_json::to_string(&before).expect("a datum is JSON");
    let again: Datum = serde_json::from_str(&json).expect("what we print we read");
    assert_eq!(again, before);
    let _ = before.to_string();
    let Some(after) = datums.next() else { return };
    let mut changed = before.clone();
    if changed.apply_diff(before.diff(&after)).is_ok()
        && std::mem::discriminant(&before) == std::mem::discriminant(&after)
    {
        assert_eq!(changed, after);
    }
}

/// A row of typed tables, `{"column":value,...}`: first as whole values, then once more as differences.
pub fn row(data: &[u8]) {
    let Ok(columns) = serde_json::from_slice::<std::collections::BTreeMap<&str, &RawValue>>(data) else {
        return;
    };
    typed_row::<PortBinding>(&columns);
    typed_row::<Chassis>(&columns);
    typed_row::<ovn::nb::LogicalSwitchPort>(&columns);
    typed_row::<ovn::nb::LoadBalancer>(&columns);
}

fn typed_row<T: Table>(columns: &std::collections::BTreeMap<&str, &RawValue>) {
    let mut row = T::default();
    for (name, value) in columns {
        let Some(column) = T::position(name) else { continue };
        if row.decode(column, false, &mut Cursor::new(value.get())).is_err() {
            continue;
        }
        let datum = row.datum(column);
        let mut other = T::default();
        other.set(column, &datum).expect("what a row gives, a row takes");
        assert_eq!(other.datum(column), datum);
        assert!(!other.differing(&row).contains(column));
        let _ = other.decode(column, true, &mut Cursor::new(value.get()));
        let _ = row.mutation(column, &other);
    }
}
