//! The tables of a report are as `datapackage.json` describes them, read with only its information.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use chrono::DateTime;
use serde_json::Value;

use crate::harness::{Matrix, Project, files};

/// A table as read from its file.
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(project: &Project, path: &str) -> Table {
        let mut reader = csv::Reader::from_path(project.path("report/m").join(path)).unwrap();
        let words = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
        let header = words(reader.headers().unwrap());
        Table { header, rows: reader.records().map(|record| words(&record.unwrap())).collect() }
    }

    /// The cells of `columns` in each line; lines in which one is `NA` are left out.
    fn keys(&self, columns: &Value) -> Vec<Vec<&str>> {
        let place = |name: &Value| self.header.iter().position(|it| it == name.as_str().unwrap()).unwrap();
        let places: Vec<usize> = columns.as_array().unwrap().iter().map(place).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|place| row[*place].as_str()).collect());
        rows.filter(|key: &Vec<&str>| !key.contains(&"NA")).collect()
    }
}

/// A report with rows, rows without a result, failures, and a custom parameter of the worker.
fn reported() -> (Project, Value) {
    let matrix = Matrix::new("m").behave(&["ok", "segfault"]).batches(&[4, 8]).repeats(3);
    let project = Project::with(matrix);
    project.orchestrate(&["run", "m.yaml"]).code(10);
    project.orchestrate(&["report"]).code(0);
    let package = fs::read_to_string(project.path("report/m/datapackage.json")).unwrap();
    (project, serde_json::from_str(&package).unwrap())
}

fn resources(package: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    package["resources"].as_array().unwrap().iter().map(|resource| {
        (resource["name"].as_str().unwrap(), resource["path"].as_str().unwrap(), &resource["schema"])
    })
}

fn is_of_type(cell: &str, kind: &str) -> bool {
    match kind {
        "string" | "any" => true,
        "integer" => cell.parse::<i64>().is_ok(),
        "number" => cell.parse::<f64>().is_ok(),
        "boolean" => ["true", "false"].contains(&cell),
        "datetime" => DateTime::parse_from_rfc3339(cell).is_ok(),
        _ => panic!("{kind} is not a type that orchestrate writes"),
    }
}

#[test]
fn every_cell_is_of_the_type_that_the_package_says() {
    let (project, package) = reported();
    let (mut kinds, mut cells) = (BTreeSet::new(), 0);
    for (name, path, schema) in resources(&package) {
        let table = Table::read(&project, path);
        let fields = schema["fields"].as_array().unwrap();
        let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        assert_eq!(table.header, names, "{name}");
        assert_eq!(schema["missingValues"], serde_json::json!(["NA"]));
        for row in &table.rows {
            for (field, cell) in fields.iter().zip(row) {
                let kind = field["type"].as_str().unwrap();
                let is_required = field["constraints"]["required"] == true;
                let fits = if cell == "NA" { !is_required } else { is_of_type(cell, kind) };
                assert!(fits, "{name}: {} is `{cell}`, a {kind}", field["name"]);
                kinds.insert(kind);
                cells += 1;
            }
        }
        for field in fields {
            let is_number = ["integer", "number"].contains(&field["type"].as_str().unwrap());
            assert_eq!(field["unit"].is_string(), is_number, "{name}: the unit of {field}");
            assert!(field["source"].is_string() && field["description"].is_string(), "{name}: {field}");
        }
    }
    assert!(kinds.len() == 6 && cells > 1000, "{cells} cells of {kinds:?}");
}

#[test]
fn the_package_lists_every_table_with_valid_keys() {
    let (project, package) = reported();
    let listed: BTreeSet<String> = resources(&package).map(|(_, path, _)| path.to_owned()).collect();
    let found = files(&project.path("report/m")).into_keys().filter(|path| path.ends_with(".csv"));
    assert_eq!(found.collect::<BTreeSet<_>>(), listed);
    let tables: BTreeMap<&str, Table> =
        resources(&package).map(|(name, path, _)| (name, Table::read(&project, path))).collect();
    let mut joined = 0;
    for (name, _, schema) in resources(&package) {
        if schema["primaryKey"].is_array() {
            let keys = tables[name].keys(&schema["primaryKey"]);
            assert_eq!(keys.len(), tables[name].rows.len(), "{name}: a key is `NA`");
            assert_eq!(
                keys.iter().collect::<BTreeSet<_>>().len(),
                keys.len(),
                "{name}: a key is there twice"
            );
        }
        for foreign in schema["foreignKeys"].as_array().into_iter().flatten() {
            let other = foreign["reference"]["resource"].as_str().unwrap();
            let there: BTreeSet<Vec<&str>> =
                tables[other].keys(&foreign["reference"]["fields"]).into_iter().collect();
            for key in tables[name].keys(&foreign["fields"]) {
                assert!(there.contains(&key), "{name}: {key:?} is not in {other}");
                joined += 1;
            }
        }
    }
    assert!(joined >= 20, "only {joined} lines refer to another table");
}

#[test]
fn tables_without_a_report_have_a_package_too() {
    let (project, _) = reported();
    project.orchestrate(&["aggregate", "--out", "tables"]).code(0);
    let package = fs::read_to_string(project.path("tables/m/datapackage.json")).unwrap();
    let package: Value = serde_json::from_str(&package).unwrap();
    let listed: BTreeSet<String> = resources(&package).map(|(_, path, _)| path.to_owned()).collect();
    let found = files(&project.path("tables/m")).into_keys().filter(|path| path.ends_with(".csv"));
    assert_eq!(found.collect::<BTreeSet<_>>(), listed);
}
