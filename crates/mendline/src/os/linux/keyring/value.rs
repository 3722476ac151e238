//! Values of D-Bus messages: the types that the Secret Service uses are written, all types are read.
//!
//! A message is foreign bytes: lengths are checked before memory is used, and the nesting is bounded.

/// The deepest nesting of a value that is read.
const MAX_DEPTH: u32 = 16;

/// A value of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Byte(u8),
    Bool(bool),
    U32(u32),
    Text(String),
    Path(String),
    Signature(String),
    Bytes(Vec<u8>),
    /// The elements, and the signature of each.
    Array(&'static str, Vec<Value>),
    /// The elements of an array that was read.
    List(Vec<Value>),
    Struct(Vec<Value>),
    Entry(Box<(Value, Value)>),
    Variant(Box<Value>),
    /// A value of a type that is of no use here.
    Other,
}

/// A message that does not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Value {
    /// A text.
    pub(super) fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// A variant with this value.
    pub(super) fn variant(value: Value) -> Value {
        Value::Variant(Box::new(value))
    }

    /// An array of pairs of texts.
    pub(super) fn pairs(pairs: &[(&str, &str)]) -> Value {
        let entry = |(name, value): &(&str, &str)| Value::Entry(Box::new((Value::text(name), Value::text(value))));
        Value::Array("{ss}", pairs.iter().map(entry).collect())
    }

    /// Returns the signature of a value to write.
    pub(super) fn signature(&self) -> String {
        match self {
            Value::Byte(_) => "y".to_owned(),
            Value::Bool(_) => "b".to_owned(),
            Value::U32(_) => "u".to_owned(),
            Value::Text(_) => "s".to_owned(),
            Value::Path(_) => "o".to_owned(),
            Value::Signature(_) => "g".to_owned(),
            Value::Bytes(_) => "ay".to_owned(),
            Value::Array(element, _) => format!("a{element}"),
            Value::Struct(members) => format!("({})", members.iter().map(Value::signature).collect::<String>()),
            Value::Entry(entry) => format!("{{{}{}}}", entry.0.signature(), entry.1.signature()),
            Value::Variant(_) => "v".to_owned(),
            Value::List(_) | Value::Other => String::new(),
        }
    }

    /// Appends the value. Alignment counts from the begin of `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Byte(byte) => out.push(*byte),
            Value::Bool(it) => write_u32(out, u32::from(*it)),
            Value::U32(number) => write_u32(out, *number),
            Value::Text(text) | Value::Path(text) => {
                write_u32(out, length(text.len()));
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            Value::Signature(text) => {
                out.push(u8::try_from(text.len()).unwrap_or_default());
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            Value::Bytes(bytes) => {
                write_u32(out, length(bytes.len()));
                out.extend_from_slice(bytes);
            }
            Value::Array(element, values) => {
                write_u32(out, 0);
                let length_at = out.len() - 4;
                pad(out, alignment(element.as_bytes().first().copied().unwrap_or_default()));
                let start = out.len();
                values.iter().for_each(|value| value.write(out));
                let written = length(out.len() - start).to_le_bytes();
                out[length_at..length_at + 4].copy_from_slice(&written);
            }
            Value::Struct(members) => {
                pad(out, 8);
                members.iter().for_each(|member| member.write(out));
            }
            Value::Entry(entry) => {
                pad(out, 8);
                entry.0.write(out);
                entry.1.write(out);
            }
            Value::Variant(value) => {
                Value::Signature(value.signature()).write(out);
                value.write(out);
            }
            Value::List(_) | Value::Other => {}
        }
    }
}

/// Reads all values of a signature.
pub(super) fn read_all(signature: &str, bytes: &[u8]) -> Result<Vec<Value>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    let mut signature = signature.as_bytes();
    let mut values = Vec::new();
    while !signature.is_empty() {
        let (first, rest) = split(signature)?;
        values.push(reader.value(first, 0)?);
        signature = rest;
    }
    Ok(values)
}

/// Splits the first complete type from a signature.
fn split(signature: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = end_of_type(signature, 0).ok_or(Malformed)?;
    Ok(signature.split_at(end))
}

fn end_of_type(signature: &[u8], depth: u32) -> Option<usize> {
    if depth > MAX_DEPTH {
        return None;
    }
    let close = match signature.first()? {
        b'a' => return Some(1 + end_of_type(&signature[1..], depth + 1)?),
        b'(' => b')',
        b'{' => b'}',
        b')' | b'}' => return None,
        _ => return Some(1),
    };
    let mut at = 1;
    while *signature.get(at)? != close {
        at += end_of_type(&signature[at..], depth + 1)?;
    }
    Some(at + 1)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, to: usize) -> Result<(), Malformed> {
        let padding = self.at.next_multiple_of(to) - self.at;
        self.take(padding).map(drop)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let bytes = self.take(4)?;
        bytes.try_into().map(u32::from_le_bytes).map_err(|_| Malformed)
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.u32()?).map_err(|_| Malformed)
    }

    fn text(&mut self, count: usize) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.take(count)?).map_err(|_| Malformed)?.to_owned();
        self.take(1)?;
        Ok(text)
    }

    fn value(&mut self, kind: &[u8], depth: u32) -> Result<Value, Malformed> {
        let code = *kind.first().ok_or(Malformed)?;
        if depth > MAX_DEPTH {
            return Err(Malformed);
        }
        Ok(match code {
            b'y' => Value::Byte(*self.take(1)?.first().ok_or(Malformed)?),
            b'b' => Value::Bool(self.u32()? != 0),
            b'u' => Value::U32(self.u32()?),
            b's' | b'o' => {
                let count = self.length()?;
                let text = self.text(count)?;
                if code == b's' { Value::Text(text) } else { Value::Path(text) }
            }
            b'g' => Value::Signature(self.signature()?),
            b'v' => {
                let signature = self.signature()?;
                let (first, rest) = split(signature.as_bytes())?;
                if !rest.is_empty() {
                    return Err(Malformed);
                }
                Value::variant(self.value(first, depth + 1)?)
            }
            b'a' => self.array(&kind[1..], depth)?,
            b'(' => {
                self.align(8)?;
                Value::Struct(self.members(&kind[1..kind.len() - 1], depth)?)
            }
            b'{' => {
                self.align(8)?;
                let members = self.members(&kind[1..kind.len() - 1], depth)?;
                let [name, value] = <[Value; 2]>::try_from(members).map_err(|_| Malformed)?;
                Value::Entry(Box::new((name, value)))
            }
            other => {
                let size = match other {
                    b'n' | b'q' => 2,
                    b'i' | b'h' => 4,
                    b'x' | b't' | b'd' => 8,
                    _ => return Err(Malformed),
                };
                self.align(size)?;
                self.take(size)?;
                Value::Other
            }
        })
    }

    fn signature(&mut self) -> Result<String, Malformed> {
        let count = usize::from(*self.take(1)?.first().ok_or(Malformed)?);
        self.text(count)
    }

    fn members(&mut self, mut signature: &[u8], depth: u32) -> Result<Vec<Value>, Malformed> {
        let mut members = Vec::new();
        while !signature.is_empty() {
            let (first, rest) = split(signature)?;
            members.push(self.value(first, depth + 1)?);
            signature = rest;
        }
        Ok(members)
    }

    fn array(&mut self, element: &[u8], depth: u32) -> Result<Value, Malformed> {
        let count = self.length()?;
        if element == b"y" {
            return Ok(Value::Bytes(self.take(count)?.to_vec()));
        }
        self.align(alignment(*element.first().ok_or(Malformed)?))?;
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or(Malformed)?;
        let mut values = Vec::new();
        while self.at < end {
            let before = self.at;
            values.push(self.value(element, depth + 1)?);
            if self.at == before {
                return Err(Malformed);
            }
        }
        if self.at == end { Ok(Value::List(values)) } else { Err(Malformed) }
    }
}

fn alignment(code: u8) -> usize {
    match code {
        b'y' | b'g' | b'v' => 1,
        b'n' | b'q' => 2,
        b'x' | b't' | b'd' | b'(' | b'{' => 8,
        _ => 4,
    }
}

/// Appends zeros up to an alignment.
pub(super) fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Appends an aligned number.
pub(super) fn write_u32(out: &mut Vec<u8>, number: u32) {
    pad(out, 4);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Returns a length as the format has it. Messages of this program are far below the limit.
pub(super) fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[Value]) -> (String, Vec<u8>) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.write(&mut bytes));
        (values.iter().map(Value::signature).collect(), bytes)
    }

    #[test]
    fn written_values_are_read_back() {
        let secret = Value::Struct(vec![
            Value::Path("/session".to_owned()),
            Value::Bytes(Vec::new()),
            Value::Bytes(b"abc".to_vec()),
            Value::text("text/plain"),
        ]);
        let values = [Value::Bool(true), Value::variant(Value::text("x")), secret, Value::U32(7)];
        let (signature, bytes) = written(&values);
        assert_eq!(signature, "bv(oayays)u");
        assert_eq!(read_all(&signature, &bytes).unwrap(), values);
        let (signature, bytes) = written(&[Value::pairs(&[("a", "b"), ("cd", "ef")])]);
        let entry = |name, value| Value::Entry(Box::new((Value::text(name), Value::text(value))));
        assert_eq!(read_all(&signature, &bytes).unwrap(), [Value::List(vec![entry("a", "b"), entry("cd", "ef")])]);
    }

    #[test]
    fn malformed_values_are_refused() {
        let (signature, bytes) = written(&[Value::pairs(&[("a", "b")]), Value::variant(Value::text("x"))]);
        for cut in 0..bytes.len() {
            assert_eq!(read_all(&signature, &bytes[..cut]), Err(Malformed), "{cut}");
        }
        let deep = "a".repeat(200) + "y";
        let cases: [(&str, &[u8]); 6] = [
            ("(s", &[]),
            ("}", &[]),
            ("a", &[]),
            ("ay", &[255, 255, 255, 255]),
            ("as", &[4, 0, 0, 0, 200, 0, 0, 0]),
            (&deep, &[]),
        ];
        for (signature, bytes) in cases {
            assert_eq!(read_all(signature, bytes), Err(Malformed), "{signature}");
        }
    }
}
