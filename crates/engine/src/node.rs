//! From a parsed description to the types that hold it.
//!
//! The TOML library has a type for each form of a value, and compiles each derived type once for
//! each of them. Here one type stands for all forms, which makes the native module 10 % smaller; a
//! build takes as long as before. The texts of errors are the same, and each carries its place.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use toml::de::{DeString, DeTable, DeValue};
use toml::Spanned;

/// An error, with the bytes of the text that it is about.
#[derive(Debug)]
pub(crate) struct Misfit {
    pub message: String,
    pub span: Option<Range<usize>>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Misfit {
        Misfit { message: message.to_string(), span: None }
    }
}

/// Reads the text of a description.
///
/// # Errors
/// The innermost value that does not fit, and what was expected.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misfit> {
    let wrong = |e: toml::de::Error| Misfit { message: e.message().to_owned(), span: e.span() };
    let table = DeTable::parse(text).map_err(wrong)?;
    let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    Node::value(&root).seeded(PhantomData)
}

/// Forms of what a deserializer is handed.
#[derive(Clone, Copy)]
enum Form<'a> {
    Key(&'a str),
    /// Name of a field of a type that keeps its place. It has to be borrowed.
    Field(&'static str),
    Value(&'a DeValue<'a>),
    /// Begin or end of a value, in bytes of the text, for types that keep their place.
    Place(usize),
}

#[derive(Clone, Copy)]
struct Node<'a> {
    form: Form<'a>,
    start: usize,
    end: usize,
}

impl<'a> Node<'a> {
    fn key(key: &'a Spanned<DeString<'a>>) -> Node<'a> {
        let Range { start, end } = key.span();
        Node { form: Form::Key(key.get_ref()), start, end }
    }

    fn value(value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        let Range { start, end } = value.span();
        Node { form: Form::Value(value.get_ref()), start, end }
    }

    /// Reads the value of a seed. Its errors are about this place, unless they name a nearer one.
    fn seeded<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Misfit> {
        seed.deserialize(self)
            // Errors rise from within, so the innermost value that knows its place names it.
            .map_err(|wrong| Misfit { span: wrong.span.or(Some(self.start..self.end)), ..wrong })
    }

    /// Returns what stands here, in the words of errors.
    fn found(self) -> Unexpected<'a> {
        let value = match self.form {
            Form::Key(text) | Form::Field(text) => return Unexpected::Str(text),
            Form::Place(place) => return Unexpected::Unsigned(place as u64),
            Form::Value(value) => value,
        };
        match value {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(number) => {
                let (text, radix) = (number.as_str(), number.radix());
                let signed = i64::from_str_radix(text, radix).map(Unexpected::Signed);
                let unsigned = || u64::from_str_radix(text, radix).map(Unexpected::Unsigned);
                signed
                    .or_else(|_| unsigned())
                    .unwrap_or(Unexpected::Other("integer number overflowed"))
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                // `parse` makes infinity of a number that is too large; only a written `inf` means
                // it.
                Ok(f) if f.is_infinite() && !number.as_str().contains("inf") => {
                    Unexpected::Other("floating-point number overflowed")
                }
                Ok(f) => Unexpected::Float(f),
                Err(_) => Unexpected::Other("floating-point number overflowed"),
            },
            DeValue::Boolean(truth) => Unexpected::Bool(*truth),
            DeValue::Datetime(_) => Unexpected::Other("a date, which no description has"),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Table(_) => Unexpected::Map,
        }
    }

    fn no<'de, V: Visitor<'de>>(self, visitor: &V) -> Result<V::Value, Misfit> {
        match self.found() {
            Unexpected::Other(wrong) => Err(Misfit::custom(wrong)),
            found => Err(Misfit::invalid_type(found, visitor)),
        }
    }

    fn scalar<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if let Form::Field(name) = self.form {
            return visitor.visit_borrowed_str(name);
        }
        match self.found() {
            Unexpected::Str(text) => visitor.visit_str(text),
            Unexpected::Signed(number) => visitor.visit_i64(number),
            Unexpected::Unsigned(number) => visitor.visit_u64(number),
            Unexpected::Float(number) => visitor.visit_f64(number),
            Unexpected::Bool(truth) => visitor.visit_bool(truth),
            _ => self.no(&visitor),
        }
    }

    fn table<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Form::Value(DeValue::Table(table)) = self.form else { return self.no(&visitor) };
        Entries::visit(
            table.iter().map(|(key, value)| (Node::key(key), Node::value(value))),
            visitor,
        )
    }

    /// Reads a value together with its place, from fields of these names: begin, end, value.
    fn placed<'de, V: Visitor<'de>>(
        self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let form = |form| Node { form, ..self };
        // `toml::Spanned` asks for a structure of three fields, and takes their names from this
        // list.
        let fields = [Form::Place(self.start), Form::Place(self.end), self.form].map(form);
        Entries::visit(names.iter().map(|name| form(Form::Field(name))).zip(fields), visitor)
    }

    fn list<'de, V: Visitor<'de>>(
        self,
        length: Option<usize>,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let Form::Value(DeValue::Array(values)) = self.form else { return self.no(&visitor) };
        // A visitor of a pair takes two of three values, and leaves the third without a word.
        match length {
            Some(length) if values.len() > length => {
                Err(Misfit::invalid_length(values.len(), &visitor))
            }
            _ => visitor.visit_seq(Elements(values.iter())),
        }
    }
}

/// Methods that take a value of one part: the visitor rejects what it cannot hold.
macro_rules! scalars {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            self.scalar(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.found() {
            Unexpected::Map => self.table(visitor),
            Unexpected::Seq => self.list(None, visitor),
            _ => self.scalar(visitor),
        }
    }

    // A key that is left out has no value, so a value that is there is never `None`.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match serde_spanned::de::is_spanned(name) {
            true => self.placed(fields, visitor),
            false => self.table(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.table(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.list(None, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.list(Some(length), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.list(Some(length), visitor)
    }

    // A name, or a table of one name with what belongs to it.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let (name, value) = match self.form {
            Form::Key(_) | Form::Value(DeValue::String(_)) => (self, None),
            Form::Value(DeValue::Table(table)) if table.len() == 1 => {
                let (name, value) = table.iter().next().expect("there is one");
                (Node::key(name), Some(Node::value(value)))
            }
            _ => return self.no(&visitor),
        };
        visitor.visit_enum(Variant { name, value })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_unit deserialize_identifier
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.scalar(visitor)
    }
}

/// Keys and values of a table.
struct Entries<'a> {
    rest: std::vec::IntoIter<(Node<'a>, Node<'a>)>,
    value: Option<Node<'a>>,
}

impl<'a> Entries<'a> {
    fn visit<'de, V: Visitor<'de>>(
        entries: impl Iterator<Item = (Node<'a>, Node<'a>)>,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        // With a list instead of the iterator there is one type for all callers: each type would be
        // compiled anew for each description.
        let rest = entries.collect::<Vec<_>>().into_iter();
        visitor.visit_map(Entries { rest, value: None })
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misfit> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        key.seeded(seed).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        self.value.take().expect("its key was asked for first").seeded(seed)
    }
}

/// Values of a list.
struct Elements<'a>(std::slice::Iter<'a, Spanned<DeValue<'a>>>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misfit> {
        self.0.next().map(|value| Node::value(value).seeded(seed)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// One of several forms that a value can have.
struct Variant<'a> {
    name: Node<'a>,
    value: Option<Node<'a>>,
}

impl<'a> Variant<'a> {
    fn value(self, expected: &str) -> Result<Node<'a>, Misfit> {
        self.value.ok_or_else(|| Misfit::invalid_type(Unexpected::UnitVariant, &expected))
    }
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Misfit;
    type Variant = Variant<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Variant<'a>), Misfit> {
        Ok((self.name.seeded(seed)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.value.map(|value| value.form) {
            None => Ok(()),
            Some(Form::Value(DeValue::Table(table))) if table.is_empty() => Ok(()),
            Some(_) => Err(Misfit::invalid_type(Unexpected::NewtypeVariant, &"unit variant")),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Misfit> {
        self.value("newtype variant")?.seeded(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.value("tuple variant")?.list(Some(length), visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let value = self.value("struct variant")?;
        if let Form::Value(DeValue::Table(table)) = value.form {
            let unknown = table.keys().find(|key| !fields.contains(&key.get_ref().as_ref()));
            if let Some(key) = unknown {
                let wrong = Misfit::unknown_field(key.get_ref(), fields);
                return Err(Misfit { span: Some(key.span()), ..wrong });
            }
        }
        value.table(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Clone, Copy, Eq, PartialOrd, Ord)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Small,
        VeryBig,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
    enum Law {
        Constant { value: f64 },
        Steps { values: Vec<f64> },
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Form {
        Plain,
        Of(u8),
        Two(u8, u8),
        With { least: u8 },
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(untagged)]
    enum Either {
        One(u32),
        Many(Vec<String>),
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Name(String);

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Part {
        size: Spanned<u64>,
        ratio: Option<f32>,
        pair: Option<[u8; 2]>,
        law: Option<Law>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        name: Option<Name>,
        #[serde(default)]
        is_on: bool,
        kind: Option<Spanned<Kind>>,
        form: Option<Form>,
        either: Option<Either>,
        device: Option<Spanned<toml::Value>>,
        #[serde(default)]
        by_kind: BTreeMap<Kind, f64>,
        #[serde(default)]
        parts: Vec<Part>,
        letter: Option<char>,
    }

    type Outcome = Result<Whole, (String, Option<Range<usize>>)>;

    /// Reads a text as the TOML library does, and as `read` does: value or error, and its place.
    fn both(text: &str) -> [Outcome; 2] {
        let library = toml::from_str(text);
        let ours = read(text);
        [
            library.map_err(|e| (e.message().to_owned(), e.span())),
            ours.map_err(|misfit| (misfit.message, misfit.span)),
        ]
    }

    const SOUND: &str = r#"name = "a"
is_on = true
kind = "very-big"
form = { with = { least = 3 } }
either = ["x", "y"]
device = { a = [1, 2.5, "b"], c = { d = false } }
by_kind = { small = 1, very-big = 2.5e3 }
letter = "z"
[[parts]]
size = 0x10
ratio = 2
law = { law = "steps", values = [1, 2.0, inf] }
[[parts]]
size = 1_000
pair = [1, 2]
law = { law = "constant", value = -0.5 }
"#;

    #[test]
    fn sound_text_gives_what_the_library_reads() {
        let [library, ours] = both(SOUND);
        assert_eq!(ours.as_ref().unwrap().parts[1].size.span(), 296..301);
        assert_eq!(library, ours);
        for form in ["'plain'", "{ plain = {} }", "{ of = 3 }", "{ two = [1, 2] }"] {
            let [library, ours] = both(&format!("form = {form}\neither = 7"));
            assert!(ours.is_ok());
            assert_eq!(library, ours);
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_no_pair() {
        let misfit = read::<Whole>("form = { two = [1, 2, 3] }").unwrap_err();
        assert_eq!(misfit.message, "invalid length 3, expected tuple variant Form::Two");
        let misfit = read::<Whole>("[[parts]]\nsize = 1\npair = [1, 2, 3]").unwrap_err();
        assert_eq!(misfit.message, "invalid length 3, expected an array of length 2");
        assert_eq!(misfit.span, Some(26..35));
    }

    #[test]
    fn unknown_keys_of_a_form_are_named() {
        let misfit = read::<Whole>("form = { with = { least = 1, most = 2 } }").unwrap_err();
        assert_eq!(misfit.message, "unknown field `most`, expected `least`");
        assert_eq!(misfit.span, Some(29..33));
    }

    const VALUES: [&str; 14] = [
        "1",
        "-1",
        "300",
        "1.5",
        "1e999",
        "999999999999999999999999999999999999999999999",
        "true",
        "'a'",
        "''",
        "[]",
        "[1]",
        "{}",
        "{ size = 1 }",
        "{ law = 'steps' }",
    ];

    proptest! {
        /// Any value in any place, and any line left out or doubled: both read the same, or tell
        /// the same error of the same place.
        #[test]
        fn wrong_text_gives_what_the_library_tells(
            line in 0..SOUND.lines().count(),
            key in "(name|unknown|pair|form)?",
            value in prop::sample::select(&VALUES[..]),
            keeps_key: bool,
        ) {
            let mut lines: Vec<String> = SOUND.lines().map(str::to_owned).collect();
            lines[line] = match lines[line].split_once(" = ") {
                Some((key, _)) if keeps_key => format!("{key} = {value}"),
                _ if key.is_empty() => String::new(),
                _ => format!("{key} = {value}"),
            };
            let [mut library, ours] = both(&lines.join("\n"));
            if let (Err((library, _)), Err((ours, _))) = (&mut library, &ours) {
                // The library does not tell what it found in place of a form.
                if library.starts_with("wanted ") {
                    library.clone_from(ours);
                }
            }
            prop_assert_eq!(library, ours);
        }
    }
}
