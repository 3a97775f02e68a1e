//! `orchestrate complexity`, as a user sees it.

use std::collections::BTreeMap;

use orchestrate::architecture::NETWORKS;

use crate::harness::{Matrix, Project};

fn project() -> Project {
    Project::with(Matrix::new("t"))
}

fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn json_csv_and_table_agree() {
    let project = project();
    let json = project.orchestrate(&["complexity", "--all", "--batch", "32,1,32", "--json"]).json();
    let csv = rows(&project.orchestrate(&["complexity", "--all", "--batch", "1,32", "--csv"]).code(0).stdout);
    let networks = json["networks"].as_array().unwrap();
    assert_eq!((networks.len(), csv.len()), (NETWORKS.len(), 2 * NETWORKS.len()));
    for (network, rows) in networks.iter().zip(csv.chunks(2)) {
        for (batch, row) in network["batches"].as_array().unwrap().iter().zip(rows) {
            assert_eq!(network["network"], row["network"]);
            for (value, name) in [
                (&network["parameters"], "parameters"),
                (&network["forward_macs"], "forward_macs"),
                (&network["training_flops"], "training_flops"),
                (&batch["batch"], "batch"),
                (&batch["memory_estimate_bytes"], "memory_estimate_bytes"),
            ] {
                assert_eq!(value.to_string(), row[name], "{name} of {}", row["network"]);
            }
        }
    }
    let table = project.orchestrate(&["complexity", "resnet50", "--batch", "32"]).code(0).stdout;
    for word in ["resnet50", "25.557", "4.089", "8.178", "24.299", "2.971", "`layer-by-layer`", "modelled"] {
        assert!(table.contains(word), "{word} in {table}");
    }
}

#[test]
fn layers_add_up_to_the_network() {
    let project = project();
    let whole = rows(&project.orchestrate(&["complexity", "vit_b_16", "--csv"]).code(0).stdout);
    let layers = rows(&project.orchestrate(&["complexity", "vit_b_16", "--layers", "--csv"]).code(0).stdout);
    for name in
        ["parameters", "forward_macs", "weight_gradient_macs", "activation_bytes", "modelled_dram_bytes"]
    {
        let sum: u64 = layers.iter().map(|row| row[name].parse::<u64>().unwrap()).sum();
        assert_eq!(sum.to_string(), whole[0][name], "{name}");
    }
    let listing = project.orchestrate(&["complexity", "vit_b_16", "--layers"]).code(0).stdout;
    assert!(listing.contains("encoder.layers.encoder_layer_11.mlp.3"), "{listing}");
}

#[test]
fn files_are_written_for_each_network() {
    let project = project();
    project.orchestrate(&["complexity", "vgg16", "alexnet", "--out", "summaries/today"]).code(0);
    for name in ["summary.csv", "summary.json", "vgg16.txt", "vgg16.csv", "alexnet.txt", "alexnet.csv"] {
        assert!(project.path("summaries/today").join(name).is_file(), "{name}");
    }
}

#[test]
fn a_network_that_cannot_be_counted_is_reported() {
    let project = project();
    let fails = |args: &[&str], text: &str| {
        project.orchestrate(&[&["complexity"], args].concat()).code(2).says(text);
    };
    fails(&[], "<NETWORK>...");
    fails(&["resnet5O"], "did you mean `resnet50`? `orchestrate complexity --all` lists them");
    fails(&["vit_b_16", "--input-size", "100"], "the next larger is `--input-size 112`");
    fails(
        &["alexnet", "--input-size", "10"],
        "alexnet does not work on images of 10 pixels: expected 63 to 4096",
    );
    fails(&["vgg16", "--batch", "0"], "0 is not in 1..=1000000");
    fails(&["vgg16", "--precision", "fp8"], "fp8");
    fails(&["vgg16", "--all"], "exclude each other");
}
