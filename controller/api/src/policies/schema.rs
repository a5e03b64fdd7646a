//! The constraints of a CRD's schema, as checks in CEL.
//!
//! The API server enforces a schema only where its CRD is installed. These checks do the same for an
//! object of another project's CRD. Left out are the types of fields, which that CRD has too, and
//! upper bounds that only limit the cost of rules.

use k8s_openapi::api::admissionregistration::v1::Variable;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use super::cel::{self, Check};
use super::{variable, variable_name};
use crate::validation;

/// The variable that holds the spec.
const SPEC: &str = "variables.spec";
/// The variable that holds the spec before an update.
const OLD_SPEC: &str = "variables.oldSpec";

/// The checks of a schema, with the variables that they use.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) variables: Vec<Variable>,
    /// In order: a check of a field may rely on earlier checks of the same field.
    pub(super) checks: Vec<Check>,
}

/// The checks of a spec's schema.
pub(super) fn checks(spec: &JSONSchemaProps) -> Checks {
    let mut found = Checks::default();
    let place = Place {
        path: "spec".to_owned(),
        present: None,
        value: SPEC.to_owned(),
    };
    found.walk(spec, &place);
    found.drop_unused();
    found
}

/// Where a value is: in the spec, or in an item of one of its lists, which is then `self`.
#[derive(Clone)]
struct Place {
    /// The path that messages show; in an item of a list it is relative to the item.
    path: String,
    /// A condition that holds where the value is present; none where it always is, or where an earlier
    /// check reports that it is missing.
    present: Option<String>,
    /// The value, as a CEL expression.
    value: String,
}

impl Place {
    /// The place of a property of this value.
    fn property(&self, name: &str, is_required: bool) -> Self {
        let value = format!("{}.{name}", self.value);
        let is_sure = is_required && self.present.is_none();
        Self {
            path: format!("{}.{name}", self.path),
            present: (!is_sure).then(|| format!("has({value})")),
            value,
        }
    }

    fn is_in_item(&self) -> bool {
        !self.path.starts_with("spec")
    }

    /// A check that the value meets a condition.
    fn check(&self, holds: &str, message: String) -> Check {
        let is_simple = holds.starts_with("has(") && !holds.contains(' ');
        let fails = match is_simple {
            true => format!("!{holds}"),
            false => format!("!({holds})"),
        };
        let fails = match &self.present {
            Some(present) => format!("{present} && {fails}"),
            None => fails,
        };
        Check {
            field: self.path.clone(),
            fails,
            message,
        }
    }

    /// A message about the value.
    fn invalid(&self, shown: &Shown, message: &str) -> String {
        let path = &self.path;
        let around = |value: &str, quote: &str| {
            format!(
                "{} + {value} + {}",
                cel::text(&format!("{path}: Invalid value: {quote}")),
                cel::text(&format!("{quote}: {message}"))
            )
        };
        match shown {
            Shown::Not => cel::text(&format!("{path}: {message}")),
            Shown::Quoted(value) => around(value, "\""),
            Shown::Plain(value) => around(value, ""),
        }
    }
}

/// A value as a string expression, in a message.
enum Shown {
    /// Messages do not show the value, which may be large.
    Not,
    Quoted(String),
    Plain(String),
}

impl Shown {
    fn of(schema: &JSONSchemaProps, value: &str) -> Self {
        match schema.type_.as_deref() {
            _ if schema.x_kubernetes_int_or_string == Some(true) => Self::Plain(format!(
                "(type({value}) == string ? '\"' + {value} + '\"' : string({value}))"
            )),
            Some("string") => Self::Quoted(value.to_owned()),
            Some("integer") => Self::Plain(format!("string({value})")),
            _ => Self::Not,
        }
    }
}

impl Checks {
    fn walk(&mut self, schema: &JSONSchemaProps, place: &Place) {
        let place = &self.container(schema, place);
        self.checks.extend(constraints(schema, place));
        let required = schema.required.as_deref().unwrap_or_default();
        for name in required {
            let path = format!("{}.{name}", place.path);
            let message = cel::text(&format!("{path}: Required value"));
            let check = place.check(&format!("has({}.{name})", place.value), message);
            self.checks.push(Check {
                field: path,
                ..check
            });
        }
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
            self.items(item, place);
        }
        for rule in schema.x_kubernetes_validations.iter().flatten() {
            self.checks.push(rule_check(rule, schema, place));
        }
        self.checks.extend(unique(schema, place));
        for (name, property) in schema.properties.iter().flatten() {
            self.walk(property, &place.property(name, required.contains(name)));
        }
        if let Some(JSONSchemaPropsOrBool::Schema(value)) = &schema.additional_properties {
            self.checks.extend(map_values(value, place));
        }
    }

    /// Gives an object or a list of the spec a variable, which is empty where it is not there.
    fn container(&mut self, schema: &JSONSchemaProps, place: &Place) -> Place {
        let empty = match schema.type_.as_deref() {
            Some("object") => "{}",
            Some("array") => "[]",
            _ => return place.clone(),
        };
        if place.is_in_item() || place.value == SPEC {
            return place.clone();
        }
        let value = &place.value;
        let name = variable_name(&place.path);
        let expression = format!("has({value}) ? {value} : {empty}");
        self.variables.push(variable(&name, &expression));
        Place {
            value: format!("variables.{name}"),
            ..place.clone()
        }
    }

    /// Drops the variables of objects and lists in which there is nothing to check.
    fn drop_unused(&mut self) {
        let mut used: Vec<String> = self.checks.iter().map(|c| c.fails.clone()).collect();
        used.extend(self.checks.iter().map(|c| c.message.clone()));
        used.extend(self.variables.iter().map(|v| v.expression.clone()));
        self.variables.retain(|variable| {
            let name = format!("variables.{}", variable.name);
            let is_name = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
            used.iter()
                .any(|text| text.split(&name).skip(1).any(is_name))
        });
    }

    /// The items of a list: the first problem of each.
    fn items(&mut self, item: &JSONSchemaProps, place: &Place) {
        if place.is_in_item() {
            // Strings in a list in an item.
            self.checks.extend(list_values(item, place));
            return;
        }
        let mut inner = Self::default();
        let start = Place {
            path: String::new(),
            present: None,
            value: "self".to_owned(),
        };
        inner.walk(item, &start);
        if inner.checks.is_empty() {
            return;
        }
        let (list, path) = (&place.value, &place.path);
        let name = format!("{}Items", variable_name(path));
        let index = format!(
            "{} + string({list}.indexOf(self)) + ']'",
            cel::text(&format!("{path}["))
        );
        let expression = format!(
            "{list}.map(self, [\n{}\n].map(problem, problem == '' ? '' : {index} + problem)[0])\n\
             .filter(problem, problem != '').join('; ')",
            cel::first_message(&inner.checks)
        );
        self.variables.push(variable(&name, &expression));
        self.checks.push(Check {
            field: path.clone(),
            fails: format!("variables.{name} != ''"),
            message: format!("variables.{name}"),
        });
    }
}

/// The constraints of a schema on its own value, without those on properties and items.
fn constraints(schema: &JSONSchemaProps, place: &Place) -> Vec<Check> {
    let shown = Shown::of(schema, &place.value);
    let check =
        |(holds, message): (String, String)| place.check(&holds, place.invalid(&shown, &message));
    simple(schema, &place.value)
        .into_iter()
        .map(check)
        .collect()
}

/// Conditions on a value with their messages: pattern and length, enumeration, minimum, number of items.
fn simple(schema: &JSONSchemaProps, value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (least, most) = (schema.min_length, schema.max_length);
    let mut holds = Vec::new();
    holds.extend(least.map(|least| format!("{value}.size() >= {least}")));
    holds.extend(most.map(|most| format!("{value}.size() <= {most}")));
    if let Some(pattern) = &schema.pattern {
        holds.push(format!("{value}.matches(r'{pattern}')"));
    }
    let only_strings = match schema.x_kubernetes_int_or_string {
        Some(true) => format!("type({value}) != string || "),
        _ => String::new(),
    };
    let message = match (&schema.pattern, least, most) {
        (Some(pattern), ..) => Some(explained(pattern)),
        (None, Some(least), Some(most)) => Some(format!("must have {least} to {most} characters")),
        (None, Some(_), None) => Some("must not be empty".to_owned()),
        // Bounded for the cost of rules.
        (None, None, _) => None,
    };
    found.extend(message.map(|message| (format!("{only_strings}{}", holds.join(" && ")), message)));
    if let Some(allowed) = &schema.enum_ {
        let allowed: Vec<&str> = allowed.iter().filter_map(|one| one.0.as_str()).collect();
        let literals: Vec<String> = allowed.iter().map(|one| cel::text(one)).collect();
        found.push((
            format!("{value} in [{}]", literals.join(", ")),
            format!("must be one of {}", allowed.join(", ")),
        ));
    }
    if let Some(minimum) = schema.minimum {
        found.push((
            format!("{value} >= {minimum}"),
            format!("must be {minimum} or more"),
        ));
    }
    match (schema.min_items.or(schema.min_properties), schema.max_items) {
        (Some(least), Some(most)) => found.push((
            format!("{value}.size() >= {least} && {value}.size() <= {most}"),
            format!("must have {least} to {most} items"),
        )),
        (Some(_), None) => found.push((
            format!("{value}.size() > 0"),
            "must not be empty".to_owned(),
        )),
        // Bounded for the cost of rules.
        (None, _) => {}
    }
    found
}

fn explained(pattern: &str) -> String {
    let known = validation::ALL.iter().find(|known| known.regex == pattern);
    known.map_or_else(
        || format!("should match '{pattern}'"),
        |known| known.message.to_owned(),
    )
}

/// A CEL rule of the schema, as it is written there.
fn rule_check(rule: &ValidationRule, schema: &JSONSchemaProps, place: &Place) -> Check {
    let value = &place.value;
    let message = rule.message.as_deref().unwrap_or_default();
    let bind = |expression: &str| match value.as_str() {
        "self" => expression.to_owned(),
        value => format!("[{value}].all(self, {expression})"),
    };
    let holds = match rule.rule.contains("oldSelf") {
        // A transition rule: it holds while there is nothing to compare with.
        true => {
            let old = value.replace(SPEC, OLD_SPEC);
            format!("!has({old}) || [{old}].all(oldSelf, {})", bind(&rule.rule))
        }
        false => bind(&rule.rule),
    };
    if let Some(field) = rule.field_path.as_ref().filter(|_| !place.is_in_item()) {
        let field = format!("{}{field}", place.path);
        let message = cel::text(&format!("{field}: {message}"));
        return Check {
            field,
            ..place.check(&holds, message)
        };
    }
    let message = match (&rule.message_expression, value.as_str()) {
        (Some(expression), "self") => expression.clone(),
        (Some(expression), value) => format!(
            "{} + [{value}].map(self, {expression})[0]",
            cel::text(&format!("{}: ", place.path))
        ),
        (None, value) => place.invalid(&Shown::of(schema, value), message),
    };
    place.check(&holds, message)
}

/// The values of a map of strings.
fn map_values(schema: &JSONSchemaProps, place: &Place) -> Vec<Check> {
    let map = &place.value;
    let value = format!("{map}[key]");
    let check = |(condition, message): (String, String)| {
        let wrong = format!("{map}.filter(key, !({condition})).map(key, {value})[0]");
        place.check(
            &format!("{map}.all(key, {condition})"),
            place.invalid(&Shown::Quoted(wrong), &message),
        )
    };
    simple(schema, &value).into_iter().map(check).collect()
}

/// The strings of a list.
fn list_values(schema: &JSONSchemaProps, place: &Place) -> Vec<Check> {
    let list = &place.value;
    let check = |(condition, message): (String, String)| {
        let wrong = format!("{list}.filter(value, !({condition}))[0]");
        place.check(
            &format!("{list}.all(value, {condition})"),
            place.invalid(&Shown::Quoted(wrong), &message),
        )
    };
    simple(schema, "value").into_iter().map(check).collect()
}

/// The items of a list of type `map` differ in their keys, which are strings.
fn unique(schema: &JSONSchemaProps, place: &Place) -> Option<Check> {
    let keys = schema.x_kubernetes_list_map_keys.as_ref()?;
    let same = keys.iter().map(|key| format!("other.{key} == self.{key}"));
    let same = same.collect::<Vec<_>>().join(" && ");
    let named = keys
        .iter()
        .map(|key| format!("'{key} \"' + self.{key} + '\"'"));
    let named = named.collect::<Vec<_>>().join(" + ', ' + ");
    let list = &place.value;
    let once = format!("{list}.exists_one(other, {same})");
    let message = format!(
        "{} + {list}.filter(self, !{once}).map(self, {named})[0]",
        cel::text(&format!("{}: Duplicate value: ", place.path))
    );
    Some(place.check(&format!("{list}.all(self, {once})"), message))
}
