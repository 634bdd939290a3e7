//! Values of a description by their paths.

use toml_edit::{Item, TableLike, Value};

use crate::input::nearest;

/// Returns the value at `path` in a document. A table in a list is named by its `name`, or by its
/// place from 0: `idle_states.c6.exit_us`, `wake_up.equation.0.alpha`.
pub(crate) fn value_at<'a>(table: &'a dyn TableLike, path: &str) -> Result<&'a Value, String> {
    let keys: Vec<&str> = path.split('.').collect();
    value_below(table, &keys, 0)
}

fn value_below<'a>(
    table: &'a dyn TableLike,
    keys: &[&str],
    depth: usize,
) -> Result<&'a Value, String> {
    let (key, parents) = (keys[depth], &keys[..depth]);
    let Some(item) = table.get(key) else { return Err(unknown_key(table, key, parents)) };
    let inner = item.as_table_like();
    if depth + 1 == keys.len() {
        return item.as_value().ok_or_else(|| match inner {
            Some(inner) => is_table(keys, inner),
            None => unknown_key(table, key, parents),
        });
    }
    if let Some(inner) = inner {
        return value_below(inner, keys, depth + 1);
    }
    let wanted = keys[depth + 1];
    let all: Vec<&dyn TableLike> = tables(item).collect();
    if all.is_empty() {
        return Err(format!("`{}` is a value and has no `{wanted}`", keys[..=depth].join(".")));
    }
    let known: Vec<Option<String>> = all.iter().map(|table| name_of(*table)).collect();
    let Some(place) = place(known.iter().map(Option::as_deref), wanted) else {
        return Err(unknown_name(&known, wanted, &keys[..=depth]));
    };
    if depth + 2 == keys.len() {
        return Err(is_table(keys, all[place]));
    }
    value_below(all[place], keys, depth + 2)
}

/// The tables of a list, in order; none if it holds anything else.
fn tables(item: &Item) -> Box<dyn Iterator<Item = &dyn TableLike> + '_> {
    let inline = |value: &Value| value.is_inline_table();
    match (item.as_array_of_tables(), item.as_array()) {
        (Some(list), _) => Box::new(list.iter().map(|table| table as &dyn TableLike)),
        (None, Some(list)) if list.iter().all(inline) => {
            let inner = list.iter().filter_map(Value::as_inline_table);
            Box::new(inner.map(|table| table as &dyn TableLike))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the name of a table of a list.
pub(crate) fn name_of(table: &dyn TableLike) -> Option<String> {
    table.get("name").and_then(Item::as_str).map(str::to_owned)
}

/// The place of the table that is meant in a list of tables with these names.
fn place<'a>(
    names: impl ExactSizeIterator<Item = Option<&'a str>> + Clone,
    wanted: &str,
) -> Option<usize> {
    // A name may be a number, and comes before the place.
    let by_name = names.clone().position(|name| name == Some(wanted));
    by_name.or_else(|| wanted.parse().ok().filter(|&place| place < names.len()))
}

fn is_table(keys: &[&str], table: &dyn TableLike) -> String {
    let (path, inner) = (keys.join("."), table.iter().map(|(key, _)| key).collect::<Vec<_>>());
    format!("`{path}` is a table; name one of its keys: {}", inner.join(", "))
}

fn unknown_name(known: &[Option<String>], wanted: &str, parents: &[&str]) -> String {
    let place = parents.join(".");
    let names: Vec<&str> = known.iter().flatten().map(String::as_str).collect();
    if names.is_empty() {
        return format!("no place `{wanted}` in {place}; it has 0 to {}", known.len() - 1);
    }
    let hint = match nearest(wanted, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("it has {}", names.join(", ")),
    };
    format!("no `{wanted}` in {place}; {hint}")
}

fn unknown_key(table: &dyn TableLike, key: &str, parents: &[&str]) -> String {
    // A list of tables has the key, and is no value.
    let known: Vec<&str> = table.iter().map(|(name, _)| name).filter(|name| *name != key).collect();
    let place =
        if parents.is_empty() { String::new() } else { format!(" in {}", parents.join(".")) };
    let hint = nearest(key, known).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    format!("unknown key `{key}`{place}{hint}")
}
