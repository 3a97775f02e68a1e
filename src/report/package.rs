//! `datapackage.json`: a description of each CSV file beside it, column by column, as a Frictionless Data Package. It
//! declares types, units and missing values.

use serde::Serialize;

use crate::analysis::table::{About, Keys, NOT_KNOWN};

/// The name of the file.
pub const DATA_PACKAGE: &str = "datapackage.json";

/// The versions of the standard that the file follows.
const PACKAGE_PROFILE: &str = "https://datapackage.org/profiles/2.0/datapackage.json";
const TABLE_PROFILE: &str = "https://datapackage.org/profiles/2.0/tableschema.json";

/// A CSV file, as the package describes it.
pub(super) struct Described<'a> {
    /// Its path beside the package.
    pub(super) path: String,
    /// Its contents, in a sentence.
    pub(super) description: String,
    /// Its columns.
    pub(super) columns: &'a [About],
    /// The columns that identify its lines, and those that refer to a line of another file.
    pub(super) keys: Keys,
}

#[derive(Serialize)]
struct Package<'a> {
    #[serde(rename = "$schema")]
    profile: &'static str,
    name: &'a str,
    description: String,
    resources: Vec<Resource>,
}

#[derive(Serialize)]
struct Resource {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    description: String,
    format: &'static str,
    mediatype: &'static str,
    encoding: &'static str,
    schema: Schema,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Schema {
    #[serde(rename = "$schema")]
    profile: &'static str,
    fields: Vec<Field>,
    missing_values: [&'static str; 1],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    primary_key: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    foreign_keys: Vec<ForeignKey>,
}

#[derive(Serialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Constraints>,
}

#[derive(Serialize)]
struct Constraints {
    required: bool,
}

#[derive(Serialize)]
struct ForeignKey {
    fields: &'static [&'static str],
    reference: Reference,
}

#[derive(Serialize)]
struct Reference {
    resource: &'static str,
    fields: &'static [&'static str],
}

/// The text of the package `name` with `files`.
pub(super) fn package(name: &str, files: &[Described<'_>]) -> String {
    let package = Package {
        profile: PACKAGE_PROFILE,
        name,
        description: format!("Tables that orchestrate {} wrote.", env!("CARGO_PKG_VERSION")),
        resources: files.iter().map(resource).collect(),
    };
    serde_json::to_string_pretty(&package).expect("names of fields are words") + "\n"
}

/// The resource is named after the last part of the path, without the extension.
fn resource(file: &Described<'_>) -> Resource {
    let last = file.path.rsplit('/').next().unwrap_or(&file.path);
    Resource {
        name: last.strip_suffix(".csv").unwrap_or(last).to_owned(),
        kind: "table",
        path: file.path.clone(),
        description: file.description.clone(),
        format: "csv",
        mediatype: "text/csv",
        encoding: "utf-8",
        schema: schema(file),
    }
}

fn schema(file: &Described<'_>) -> Schema {
    let foreign_keys = file.keys.foreign.iter().map(|foreign| ForeignKey {
        fields: foreign.columns,
        reference: Reference { resource: foreign.file, fields: foreign.columns },
    });
    Schema {
        profile: TABLE_PROFILE,
        fields: file.columns.iter().map(field).collect(),
        missing_values: [NOT_KNOWN],
        primary_key: file.keys.primary,
        foreign_keys: foreign_keys.collect(),
    }
}

fn field(column: &About) -> Field {
    let absent = column.absent.map(|absent| format!(" `NA` if {absent}."));
    Field {
        name: column.name.clone().into_owned(),
        kind: column.cell_type.as_str(),
        description: without_links(&column.meaning) + &absent.unwrap_or_default(),
        unit: column.unit().filter(|_| column.cell_type.is_number()),
        source: column.source.as_str(),
        constraints: column.absent.is_none().then_some(Constraints { required: true }),
    }
}

/// `text` without the targets of its links, which are pages of the manual and not beside the tables.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, (_, after))) =
            link.split_once("](").and_then(|(words, target)| Some((words, target.split_once(')')?)))
        else {
            break;
        };
        plain += before;
        plain += words;
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_no_links() {
        for (text, plain) in [
            ("The names of its [marks](../marks.md).", "The names of its marks."),
            ("[a](b), [c](d)", "a, c"),
            ("from [0, 1]", "from [0, 1]"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_links(text), plain);
        }
    }
}
