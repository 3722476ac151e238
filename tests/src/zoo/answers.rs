//! The comparison of an answer with the answers of two direct runs.
//!
//! A value in which the two direct runs differ may have any content; every other value must be equal. The order of the
//! members of an object has no meaning in JSON and is not compared.

use serde_json::Value;

/// The number of characters of a value in a message.
const SHOWN: usize = 400;

/// Compares an answer with those of two direct runs. Returns the number of values in which the direct runs differ.
///
/// # Errors
///
/// Returns the path and both values of the first difference.
pub fn compare(direct: [&Value; 2], through: &Value) -> Result<usize, String> {
    compare_at(direct, through, "")
}

fn compare_at([one, other]: [&Value; 2], through: &Value, path: &str) -> Result<usize, String> {
    if one == other {
        return difference(one, through, path).map_or(Ok(0), Err);
    }
    let mut differing = 0;
    match (one, other, through) {
        (Value::Object(one), Value::Object(other), Value::Object(through)) => {
            if let Some(added) = through.keys().find(|name| !one.contains_key(*name) && !other.contains_key(*name)) {
                return Err(format!("{path}/{added} is only there through Mendline"));
            }
            for (name, value) in one {
                match (other.get(name), through.get(name)) {
                    (Some(other), Some(through)) => {
                        differing += compare_at([value, other], through, &format!("{path}/{name}"))?;
                    }
                    (Some(_), None) => return Err(format!("{path}/{name} is missing through Mendline")),
                    (None, _) => differing += 1,
                }
            }
            differing += other.keys().filter(|name| !one.contains_key(*name)).count();
        }
        (Value::Array(one), Value::Array(other), Value::Array(through)) if one.len() == other.len() => {
            if through.len() != one.len() {
                return Err(format!("{path} has {} items, and {} through Mendline", one.len(), through.len()));
            }
            for (index, through) in through.iter().enumerate() {
                differing += compare_at([&one[index], &other[index]], through, &format!("{path}/{index}"))?;
            }
        }
        _ => differing = 1,
    }
    Ok(differing)
}

/// Returns the first difference of two values.
fn difference(direct: &Value, through: &Value, path: &str) -> Option<String> {
    match (direct, through) {
        _ if direct == through => None,
        (Value::Object(direct), Value::Object(through)) => {
            let here = |name: &String| format!("{path}/{name}");
            let gone = direct.keys().find(|name| !through.contains_key(*name));
            let added = through.keys().find(|name| !direct.contains_key(*name));
            let all = Value::Object(through.clone());
            gone.map(|name| format!("{} is missing through Mendline: {}", here(name), shown(&all)))
                .or_else(|| added.map(|name| format!("{} is only there through Mendline", here(name))))
                .or_else(|| direct.iter().find_map(|(name, value)| difference(value, &through[name], &here(name))))
        }
        (Value::Array(direct), Value::Array(through)) if direct.len() == through.len() => {
            let mut pairs = direct.iter().zip(through).enumerate();
            pairs.find_map(|(index, (direct, through))| difference(direct, through, &format!("{path}/{index}")))
        }
        _ => Some(format!("{path} is {} directly and {} through Mendline", shown(direct), shown(through))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let end = text.floor_char_boundary(SHOWN);
    if end < text.len() { format!("{}…", &text[..end]) } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::compare;

    #[test]
    fn equal_answers_have_no_difference() {
        let answer = json!({ "id": 1, "result": { "list": [1, { "a": null }] } });
        assert_eq!(compare([&answer, &answer], &answer), Ok(0));
    }

    #[test]
    fn value_of_equal_direct_runs_must_be_equal() {
        let direct = json!({ "result": { "list": [1, { "a": null }] } });
        let other = json!({ "result": { "list": [1, { "a": 2 }] } });
        let why = compare([&direct, &direct], &other).unwrap_err();
        assert_eq!(why, "/result/list/1/a is null directly and 2 through Mendline");
        let why = compare([&direct, &direct], &json!({ "result": {} })).unwrap_err();
        assert_eq!(why, "/result/list is missing through Mendline: {}");
        let why = compare([&direct, &direct], &json!({ "result": direct["result"], "x": 1 })).unwrap_err();
        assert_eq!(why, "/x is only there through Mendline");
    }

    #[test]
    fn only_differing_values_of_direct_runs_are_ignored() {
        let one = json!({ "time": 1, "name": "n", "list": [{ "pid": 5, "kept": true }] });
        let two = json!({ "time": 2, "name": "n", "list": [{ "pid": 6, "kept": true }] });
        let fine = json!({ "time": 3, "name": "n", "list": [{ "pid": 7, "kept": true }] });
        assert_eq!(compare([&one, &two], &fine), Ok(2));
        let wrong = json!({ "time": 3, "name": "n", "list": [{ "pid": 7, "kept": false }] });
        let why = compare([&one, &two], &wrong).unwrap_err();
        assert_eq!(why, "/list/0/kept is true directly and false through Mendline");
        let shorter = json!({ "time": 3, "name": "n", "list": [] });
        compare([&one, &two], &shorter).unwrap_err();
        let without = json!({ "time": 3, "list": [{ "pid": 7, "kept": true }] });
        compare([&one, &two], &without).unwrap_err();
        let more = json!({ "time": 3, "name": "n", "extra": 1, "list": [{ "pid": 7, "kept": true }] });
        compare([&one, &two], &more).unwrap_err();
    }
}
