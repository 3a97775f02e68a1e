//! The files of a report beside its tables: figures as SVG, PNG and CSV, and the pages `report.md` and `report.html`.
//! The verb `report` calls [`render`], and writes the returned [`File`]s. This room derives no numbers
//! and never reads a clock, a host or a directory. So the same analysis always results in the same bytes. The
//! pages come from the templates in `templates/`.

mod changes;
mod comparison;
mod discs;
mod figure;
mod figures;
mod frame;
#[cfg(test)]
mod geometry_tests;
mod hover;
mod inks;
mod labels;
mod letters;
mod lines;
mod package;
mod page;
mod png;
mod roofs;
mod scale;
mod selection;
mod svg;
mod url;

use crate::analysis::history::History;
use crate::analysis::table::{About, CSV_FILES, CsvFile, Keys, history_table};
use crate::analysis::{Analysis, Study};
use crate::threads;
use figure::{Drawing, Drawn};
use package::{Described, package};

pub use comparison::{
    apart_text, comparison_files, differences_text, geometric_mean_text, legend, outcome_text, table_header,
    table_rows,
};
pub use figure::Figure;
pub use figures::FIGURES;
pub use package::DATA_PACKAGE;
pub use page::{PageError, RunLinks, environment};
pub use png::DrawError;
pub use url::encoded;

/// The name of the page, and its built-in template.
const PAGE: &str = "report.html";
const HTML: &str = include_str!("../../templates/report.html.j2");

/// The templates of the two pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    /// `report.md.j2`
    pub markdown: String,
    /// `report.html.j2`
    pub html: String,
}

impl Default for Templates {
    /// The built-in templates.
    fn default() -> Self {
        Templates { markdown: include_str!("../../templates/report.md.j2").to_owned(), html: HTML.to_owned() }
    }
}

/// A file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the report's directory.
    pub path: String,
    /// Its contents.
    pub contents: Vec<u8>,
}

impl File {
    fn text(path: impl Into<String>, text: String) -> Self {
        File { path: path.into(), contents: text.into_bytes() }
    }
}

/// A report cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A page cannot be rendered.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A figure cannot be drawn.
    #[error("cannot draw the figure {name}")]
    Draw {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: DrawError,
    },
}

/// `datapackage.json` for the [`CSV_FILES`] of the matrix `matrix`, without figures.
pub fn tables_package(matrix: &str, analysis: &Analysis<'_>) -> File {
    package_file(matrix, analysis, &[])
}

/// `datapackage.json` for the [`CSV_FILES`] and those behind `figures`.
fn package_file(matrix: &str, analysis: &Analysis<'_>, figures: &[Drawn]) -> File {
    let columns: Vec<(&CsvFile, Vec<About>)> =
        CSV_FILES.iter().map(|file| (file, (file.rows)(analysis).columns().to_vec())).collect();
    let files = columns.iter().map(|(file, columns)| Described {
        path: file.name.to_owned(),
        description: format!("One line per {}.", file.line),
        columns,
        keys: file.keys,
    });
    let behind = figures.iter().flat_map(|(figure, drawings)| {
        drawings.iter().map(|drawing| Described {
            path: format!("figures/{}.csv", figure.file_name(drawing)),
            description: format!("The numbers of the figure: {}.", drawing.title),
            columns: &drawing.numbers.columns,
            keys: figure.keys,
        })
    });
    File::text(DATA_PACKAGE, package(matrix, &files.chain(behind).collect::<Vec<_>>()))
}

/// `history.csv` of the matrix called `matrix`, with its `datapackage.json`.
pub fn history_files(matrix: &str, history: &History) -> [(&'static str, String); 2] {
    const NAME: &str = "history.csv";
    let table = history_table(history);
    let described = Described {
        path: NAME.to_owned(),
        description: "One line per config, host and version.".to_owned(),
        columns: &table.columns,
        keys: Keys::VERSIONS,
    };
    let package = package(matrix, &[described]);
    [(NAME, table.csv), (DATA_PACKAGE, package)]
}

/// Renders the figures and pages, and the `datapackage.json` of all tables. They belong beside the [`CSV_FILES`].
/// `links` are the links from the page to the files of runs. `commands` are the command lines that reproduce the
/// report.
///
/// # Errors
/// [`RenderError`]: a template is invalid, or a figure cannot be drawn.
pub fn render(
    study: &Study,
    analysis: &Analysis<'_>,
    templates: &Templates,
    links: &RunLinks,
    commands: &[String],
) -> Result<Vec<File>, RenderError> {
    let figures = drawn(analysis);
    // Drawing those that are not on the page, too, would take longer than the rest.
    let (pictures, pages) = threads::both(
        || pictures(shown(&figures)),
        || pages(study, analysis, templates, links, commands, &figures),
    );
    let mut files = pictures?;
    files.extend(pages?);
    files.push(package_file(study.matrix.name.as_str(), analysis, &figures));
    files.extend(drawings(figures));
    Ok(files)
}

/// Renders `report.html` from its built-in template to be shown while results come. The figures beside it are SVG and
/// CSV only, because PNG takes longest. `links` and `commands` are as in [`render`].
///
/// # Errors
/// [`RenderError::Page`].
pub fn render_live(
    study: &Study,
    analysis: &Analysis<'_>,
    links: &RunLinks,
    commands: &[String],
) -> Result<Vec<File>, RenderError> {
    let figures = drawn(analysis);
    let page = page::page(study, analysis, &figures, links, commands, true);
    let page = minijinja::Value::from(minijinja::value::Serde(page));
    let mut files = vec![File::text(PAGE, page::render(PAGE, HTML, &page)?)];
    files.extend(drawings(figures));
    Ok(files)
}

/// The inline styles and scripts of `report.html`, for the Content-Security-Policy of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageParts {
    /// The style sheet of the page.
    pub style: &'static str,
    /// The style sheet in each drawing.
    pub drawing_style: String,
    /// The script of the page.
    pub script: &'static str,
}

impl PageParts {
    /// Those of the built-in template.
    pub fn built_in() -> PageParts {
        let sheet = inks::dark_mode();
        let drawing_style = element(&sheet, "style").to_owned();
        PageParts { style: element(HTML, "style"), drawing_style, script: element(HTML, "script") }
    }
}

/// The content of the first element called `name` in `html`; empty if there is none.
fn element<'h>(html: &'h str, name: &str) -> &'h str {
    let begin = html.split_once(&format!("<{name}>")).map_or("", |(_, rest)| rest);
    begin.split_once(&format!("</{name}>")).map_or("", |(content, _)| content)
}

/// Every figure with its drawings.
fn drawn(analysis: &Analysis<'_>) -> Vec<Drawn> {
    threads::each(FIGURES.len(), |number| (&FIGURES[number], (FIGURES[number].draw)(analysis)))
}

/// The two pages.
fn pages(
    study: &Study,
    analysis: &Analysis<'_>,
    templates: &Templates,
    links: &RunLinks,
    commands: &[String],
    figures: &[Drawn],
) -> Result<Vec<File>, RenderError> {
    // As a value of the template language, it is large, so both pages share one.
    let page = page::page(study, analysis, figures, links, commands, false);
    let page = minijinja::Value::from(minijinja::value::Serde(page));
    let of =
        |name: &str, template: &str| page::render(name, template, &page).map(|text| File::text(name, text));
    let (markdown, html) =
        threads::both(|| of("report.md", &templates.markdown), || of(PAGE, &templates.html));
    Ok(vec![markdown?, html?])
}

/// The SVG and the CSV of each drawing.
fn drawings(figures: Vec<Drawn>) -> Vec<File> {
    let all = figures.into_iter().flat_map(|(figure, drawings)| {
        drawings.into_iter().map(|drawing| (figure.file_name(&drawing), drawing))
    });
    let files = |(name, drawing): (String, Drawing)| {
        let path = |extension| format!("figures/{name}.{extension}");
        [File::text(path("svg"), drawing.svg), File::text(path("csv"), drawing.numbers.csv)]
    };
    all.flat_map(files).collect()
}

/// The drawings on the page, each with its name.
fn shown(figures: &[Drawn]) -> impl Iterator<Item = (String, &str)> {
    let counts: Vec<usize> = figures.iter().map(|(_, drawings)| drawings.len()).collect();
    figures.iter().zip(selection::on_page(&counts)).flat_map(move |((figure, drawings), shown)| {
        drawings[..shown].iter().map(move |drawing| (figure.file_name(drawing), drawing.svg.as_str()))
    })
}

/// The PNG of each of `plots`, which are a name and an SVG.
fn pictures<'p>(plots: impl Iterator<Item = (String, &'p str)>) -> Result<Vec<File>, RenderError> {
    let (names, svgs): (Vec<String>, Vec<&str>) = plots.unzip();
    let file = |(name, pixels): (String, Result<Vec<u8>, DrawError>)| {
        let contents = pixels.map_err(|source| RenderError::Draw { name: name.clone(), source })?;
        Ok(File { path: format!("figures/{name}.png"), contents })
    };
    names.into_iter().zip(png::pngs(&svgs)).map(file).collect()
}

#[cfg(test)]
mod page_tests;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::fixture::{
        StudyBuilder, kernel, key, measured_peaks, operator, peaks_of, profile, study_with_peaks,
    };
    use crate::analysis::peaks::Catalogue;
    use crate::protocol::{IterationClock, Iterations, OperatorClass};
    use crate::record::{Outcome, Sensor, Telemetry};

    fn rendered(study: &Study) -> Vec<File> {
        let commands = ["run matrices/test.yaml", "report test"].map(|words| format!("orchestrate {words}"));
        render(study, &analyse(study), &Templates::default(), &RunLinks::none(), &commands).unwrap()
    }

    fn text(files: &[File], path: &str) -> String {
        let file = files.iter().find(|file| file.path == path).unwrap();
        String::from_utf8(file.contents.clone()).unwrap()
    }

    fn failures_only() -> Study {
        StudyBuilder::new()
            .failure(key("cpu", "vgg16", 16, 1), Outcome::Signalled { signal: 11 })
            .not_run(key("cpu", "vgg16", 16, 2), "not run yet")
            .build()
    }

    #[test]
    fn pages_with_all_sections() {
        let mut study = study_with_peaks();
        // A contended run, and a text that would break a table.
        let record = Arc::make_mut(study.cells[0].record.as_mut().unwrap());
        record.observed.host_busy_s = Some(1000.0);
        let reason = "a | b\n<script>alert(1)</script>".to_owned();
        study.cells[13].record = Err(crate::analysis::NoRecord { reason, is_altered: false });
        let files = rendered(&study);
        insta::assert_snapshot!("report.md", text(&files, "report.md"));
        let html = text(&files, "report.html");
        assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;"));
        let drawn = files.iter().filter(|file| file.path.ends_with(".svg")).count();
        assert_eq!(html.matches("<svg").count(), drawn);
    }

    #[test]
    fn pages_with_only_failures() {
        let files = rendered(&failures_only());
        insta::assert_snapshot!("failures.md", text(&files, "report.md"));
        assert!(!files.iter().any(|file| file.path.starts_with("figures/")));
    }

    #[test]
    fn equal_analyses_result_in_equal_bytes() {
        let mut study = study_with_peaks();
        let first = rendered(&study);
        study.cells.reverse();
        study.spans.reverse();
        let second = rendered(&study);
        for (first, second) in first.iter().zip(&second) {
            assert!(first == second, "{} differs", first.path);
        }
        assert_eq!(first.len(), second.len());
    }

    /// A figure shows each line of the table beside it: with fewer lines, it has fewer shapes.
    #[test]
    fn every_figure_shows_all_lines_of_its_table() {
        let study = with_everything();
        let fewer = with_fewer_runs(study.clone());
        let (analysis, without) = (analyse(&study), analyse(&fewer));
        for figure in FIGURES {
            let of = |analysis: &Analysis<'_>| -> (usize, usize) {
                let drawings = (figure.draw)(analysis);
                let rows = drawings.iter().flat_map(|it| it.numbers.read().rows).count();
                (rows, drawings.iter().map(|drawing| shapes(&drawing.svg)).sum())
            };
            let ((rows, all), (fewer_rows, fewer_shapes)) = (of(&analysis), of(&without));
            let (rows, more) = (rows - fewer_rows, all.saturating_sub(fewer_shapes));
            // A row that is not the fastest of its network is not in all of them.
            let has_rows = rows > 0 || figure.name == "limits";
            assert!(has_rows && more >= rows, "{}: {more} shapes more for {rows} rows more", figure.name);
        }
    }

    #[test]
    fn every_figure_is_written_and_on_both_pages() {
        let study = with_everything();
        let analysis = analyse(&study);
        let files = rendered(&study);
        let [markdown, html] = ["report.md", "report.html"].map(|page| text(&files, page));
        for figure in FIGURES {
            let drawings = (figure.draw)(&analysis);
            assert!(!drawings.is_empty(), "the study has nothing for the figure {}", figure.name);
            for drawing in drawings {
                let name = format!("figures/{}", figure.file_name(&drawing));
                for extension in ["svg", "png", "csv"] {
                    let path = format!("{name}.{extension}");
                    assert!(files.iter().any(|file| file.path == path), "{path} is not written");
                    assert!(markdown.contains(&path), "report.md does not link {path}");
                }
                assert!(html.contains(&svg::within_page(&drawing.svg)), "report.html does not show {name}");
                let columns = (figure.columns)().into_iter().flat_map(|section| section.columns);
                let names = columns.map(|about| about.name.into_owned());
                // Those of the study are one each in the manual.
                let names: Vec<String> = names.filter(|name| !name.contains("NAME")).collect();
                let header = drawing.numbers.read().header();
                let header = header.iter().filter(|name| !name.starts_with("param_"));
                assert_eq!(
                    header.cloned().collect::<Vec<_>>(),
                    names,
                    "{}: the manual and the table differ",
                    figure.name
                );
            }
        }
    }

    /// A point links to its row or run in the table of results. In the file of a figure, the link contains the page.
    #[test]
    fn every_link_within_the_page_has_a_target() {
        let files = rendered(&with_everything());
        let html = text(&files, "report.html");
        let targets: Vec<&str> =
            html.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect();
        for target in &targets {
            assert_eq!(html.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
        }
        assert!(targets.iter().any(|target| target.ends_with("-run2")), "{targets:?}");
        let svg = text(&files, "figures/throughput_cpu.svg");
        let target =
            svg.split("<a href=\"../report.html#").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(targets.contains(&target), "{target}");
    }

    /// A full page links the drawings that are only in `figures/`.
    #[test]
    fn a_full_page_links_the_other_drawings() {
        let files = rendered(&geometry_tests::study_of_60());
        let [markdown, html] = ["report.md", "report.html"].map(|page| text(&files, page));
        let names: Vec<&str> = files.iter().filter_map(|file| file.path.strip_suffix(".svg")).collect();
        assert!(names.len() > selection::MOST, "{names:?}");
        assert_eq!(html.matches("<svg").count(), selection::MOST);
        assert_eq!(markdown.matches("![").count(), selection::MOST);
        for name in &names {
            assert!(html.contains(name) && markdown.contains(name), "no page mentions {name}");
        }
        let pictures: Vec<&str> = files.iter().filter_map(|file| file.path.strip_suffix(".png")).collect();
        assert_eq!(pictures.len(), selection::MOST);
        assert!(pictures.iter().all(|name| markdown.contains(&format!("({name}.png)"))));
        assert!(html.contains("More drawings beside this page:"));
        assert!(markdown.contains("More drawings beside this page:"));
    }

    /// A study that has something for every figure.
    fn with_everything() -> Study {
        let mut study = with_a_second_device(with_an_axis(with_kernels(study_with_peaks())));
        for cell in &mut study.cells {
            let is_timing = cell.is_timing();
            let Ok(record) = &mut cell.record else { continue };
            if let (Some(measurement), true) = (&record.measurement, is_timing) {
                let joules = measurement.samples as f64 * f64::from(record.key.batch);
                let telemetry = Telemetry::default().with(Sensor::CpuEnergy, joules);
                Arc::make_mut(record).observed.telemetry = Some(telemetry);
                cell.iterations = Iterations::new(IterationClock::Host, &[(0.5, 0.0), (0.6, 0.0)]);
            }
        }
        study
    }

    /// `study` with a run of another network on another host, whose device has other peaks.
    fn with_a_second_device(mut study: Study) -> Study {
        let added = StudyBuilder::new().run_with(key("other", "alexnet", 4, 1), 90.0, |record| {
            record.provenance.host.hostname = "bench-2".to_owned();
            let measurement = record.measurement.as_mut().unwrap();
            measurement.details.device_name = Some("Other".to_owned());
        });
        study.cells.extend(added.build().cells);
        study.peaks =
            Catalogue::new(vec![measured_peaks(250e9, 20e9), peaks_of("bench-2", "Other", 500e9, 90e9)]);
        study
    }

    /// `study` with profiled jobs of one config: two kernels that were counted, and the time of two operators.
    fn with_kernels(mut study: Study) -> Study {
        let kernels = vec![kernel("gemm", 1.0, 200.0, 1.0), kernel("relu", 1.0, 1.0, 1.0)];
        let config = key("cpu", "resnet18", 16, 1);
        let operators = vec![
            operator("conv", OperatorClass::Convolution, 2.0, 400.0, 4.0),
            operator("norm", OperatorClass::Normalisation, 0.8, 1.0, 10.0),
        ];
        let added = StudyBuilder::new().kernels(&config, kernels, 2.0).profiled(
            &config,
            10.0,
            profile(3.2, operators),
            |record| {
                record.started_at -= chrono::TimeDelta::days(2);
                record.ended_at -= chrono::TimeDelta::days(2);
            },
        );
        study.cells.extend(added.build().cells);
        study
    }

    /// `study` with a second precision for two batches of a network.
    fn with_an_axis(mut study: Study) -> Study {
        let mut added = StudyBuilder::new();
        for (batch, rates) in [(4, [10.0, 10.1, 10.2]), (16, [13.0, 13.1, 12.9])] {
            for (repeat, rate) in (1..).zip(rates) {
                let mut key = key("cpu", "resnet18", batch, repeat);
                key.precision = crate::job::Precision::Amp;
                added = added.run_with(key, rate, |record| {
                    // Not at the time of the other runs, which would disturb it.
                    record.started_at -= chrono::TimeDelta::days(1);
                    record.ended_at -= chrono::TimeDelta::days(1);
                });
            }
        }
        study.cells.extend(added.build().cells);
        study
    }

    #[test]
    fn the_effect_of_an_axis_is_above_its_figure_on_both_pages() {
        let files = rendered(&with_an_axis(study_with_peaks()));
        for (page, axis) in [("report.md", "`precision`"), ("report.html", "<code>precision</code>")] {
            let text = text(&files, page);
            let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in {page}"));
            let effect = place(&format!("{axis} amp against fp32: 1.2"));
            assert!(effect < place("over 2 configs, from 1.2"), "{text}");
            assert!(place("over 2 configs, from 1.2") < place("figures/axes_precision.png"), "{text}");
        }
        assert!(!text(&rendered(&study_with_peaks()), "report.md").contains("Effect of each axis"));
    }

    /// `study` without the runs of one config, which is neither the slowest nor the fastest: no axis changes.
    fn with_fewer_runs(mut study: Study) -> Study {
        study.cells.retain(|cell| cell.job.key().model != "resnet18" || cell.job.key().batch != 16);
        study
    }

    /// The lines, areas and points of a figure, without the grids and ticks of its axes.
    fn shapes(svg: &str) -> usize {
        let is_shape = |line: &&str| {
            ["<circle", "<path", "<line", "<polyline", "<polygon"].iter().any(|shape| line.starts_with(shape))
        };
        let of_axes =
            |line: &str| line.contains(inks::GRID) || line.ends_with("#666666\" stroke-width=\"1\"/>");
        svg.lines().filter(is_shape).filter(|line| !of_axes(line)).count()
    }

    /// One row has lost a run, another one all of its runs, and the third none.
    #[test]
    fn both_pages_show_the_rows_with_and_without_the_runs_left_out() {
        let contended = |record: &mut crate::record::Record| record.observed.host_busy_s = Some(1e6);
        let study = || {
            StudyBuilder::new()
                .runs("cpu", "resnet18", 4, &[10.0, 12.0])
                .run_with(key("cpu", "resnet18", 4, 3), 5.0, contended)
                .run_with(key("cpu", "resnet18", 16, 1), 5.0, contended)
                .runs("cpu", "resnet18", 32, &[10.0])
        };
        let pages = |study: StudyBuilder| {
            let files = rendered(&study.build());
            ["report.md", "report.html"].map(|page| text(&files, page))
        };
        let [markdown, html] = pages(study());
        for words in [
            "| cpu_resnet18_fp32_bs4 | 1 of 3 runs | 0 | 1 × contended | 10.95 (2) | 8.434 (3) | 1.299 |",
            "| cpu_resnet18_fp32_bs16 | 1 of 1 run | 0 | 1 × contended | no run | 5.000 (1) | NA |",
            "The other row with a result has no such run. The runs that marks leave out were 54.4 % slower than",
        ] {
            assert!(markdown.contains(words), "{words} is not in {markdown}");
        }
        for words in
            ["<td class=\"n\">10.95 (2)</td>", "were 54.4 % slower than", "<h3>With and without them</h3>"]
        {
            assert!(html.contains(words), "{words} is not in {html}");
        }
        let said = "are included (";
        assert!(
            [&markdown, &html]
                .iter()
                .all(|page| !page.contains(said) && page.contains("Runs left out of the statistics"))
        );
        for page in pages(study().include_marked()) {
            assert!(
                page.contains(said)
                    && !page.contains("Runs left out of the statistics")
                    && page.contains("10.95 (2)")
            );
        }
        for page in pages(StudyBuilder::new().runs("cpu", "resnet18", 4, &[10.0, 12.0])) {
            assert!(!page.contains("Runs left out of") && !page.contains("With and without them"));
        }
    }

    /// Otherwise the files of one would be removed with those of the other, or overwrite them.
    #[test]
    fn no_figure_owns_the_files_of_another() {
        for figure in FIGURES {
            let owners: Vec<&str> = FIGURES
                .iter()
                .filter(|other| other.owns(&format!("{}_x.svg", figure.name)))
                .map(|other| other.name)
                .collect();
            assert_eq!(owners, [figure.name]);
        }
    }

    #[test]
    fn modelled_points_are_hollow_and_estimated_ones_are_not_drawn() {
        let study = StudyBuilder::new()
            .peaks(measured_peaks(250e9, 20e9))
            .runs("cpu", "resnet18", 16, &[10.0, 10.1])
            .build();
        let svg = text(&rendered(&study), "figures/roofline_cpu.svg");
        let circles: Vec<&str> = svg.lines().filter(|line| line.starts_with("<circle")).collect();
        assert_eq!(circles.len(), 2, "the point and its entry in the key");
        assert!(circles.iter().all(|circle| circle.contains("fill=\"#ffffff\"")), "{circles:?}");
    }

    #[test]
    fn both_ends_of_a_range_are_drawn_and_printed() {
        let peaks = |flops: [f64; 2], bandwidth: [f64; 2]| {
            let range = |[low, high]: [f64; 2]| crate::analysis::peaks::Range { low, high };
            let mut peaks = measured_peaks(1.0, 1.0);
            peaks.flops[0].flops_per_s = range(flops);
            peaks.bandwidth = Some(range(bandwidth));
            peaks
        };
        let with = |peaks| {
            let study = StudyBuilder::new().peaks(peaks).runs("cpu", "resnet18", 16, &[10.0, 10.1]);
            let files = rendered(&study.build());
            let dashed = text(&files, "figures/roofline_cpu.svg").matches("stroke-dasharray=\"4 3\"").count();
            (dashed, text(&files, "report.md"))
        };
        let (dashed, page) = with(peaks([200e9, 400e9], [20e9, 30e9]));
        assert_eq!(dashed, 2);
        for words in ["| 26.8 to 53.5 |", "| 20.0 to 30.0 GB/s |"] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
        assert_eq!(with(peaks([400e9, 400e9], [30e9, 30e9])).0, 0);
    }

    /// A share of the peak that leaves out work is not the MFU.
    #[test]
    fn a_convention_that_leaves_out_work_is_named_without_mfu() {
        use crate::analysis::cost::FlopsConvention;
        for (convention, words) in [
            (FlopsConvention::LayerByLayer, "It is the model FLOPs utilisation (MFU) where"),
            (
                FlopsConvention::Seed2,
                "It is not the model FLOPs utilisation (MFU), because FLOPs are left out.",
            ),
        ] {
            let files = rendered(&Study { convention, ..study_with_peaks() });
            let name = convention.as_str();
            let named = [format!("(convention `{name}`)"), format!("(convention <code>{name}</code>)")];
            for (page, named) in ["report.md", "report.html"].into_iter().zip(named) {
                let page = text(&files, page);
                assert!(page.contains(words) && page.matches("MFU").count() == 1, "{convention:?}");
                assert!(page.contains(&named), "{convention:?}");
            }
        }
    }

    /// A point has a line over the interval of its runs; one run has none.
    #[test]
    fn the_scatter_of_a_point_is_drawn() {
        let lines = |rates: &[f64]| {
            let peaks = measured_peaks(250e9, 20e9);
            let study = StudyBuilder::new().peaks(peaks).runs("cpu", "resnet18", 16, rates).build();
            text(&rendered(&study), "figures/roofline_cpu.svg").matches("stroke-width=\"1.4\"").count()
        };
        assert_eq!((lines(&[10.0, 10.5, 9.5]), lines(&[10.0])), (1, 0));
    }

    /// The MAD of few runs is not an error: that of three covers the median in 44 % of cases.
    #[test]
    fn the_bars_of_a_throughput_are_intervals_with_the_number_of_runs() {
        let figure = |rates: &[f64]| {
            let study = StudyBuilder::new().runs("cpu", "resnet18", 16, rates).build();
            text(&rendered(&study), "figures/throughput_cpu.svg")
        };
        // A bar is one line with two caps.
        let lines = |svg: &str| svg.matches("stroke-width=\"1.4\"").count();
        let three = figure(&[10.0, 10.5, 9.5]);
        assert!(three.contains("Bar: 95 % interval, n = 3.") && lines(&three) == 3, "{three}");
        let two = figure(&[10.0, 10.5]);
        assert!(two.contains("No bar: n is too small.") && lines(&two) == 0, "{two}");
        // It goes beyond the plot, at the top: the cap is missing.
        let wide = figure(&[10.0, 5.0, 20.0]);
        assert_eq!(lines(&wide), 2);
        let svg = text(&rendered(&study_with_peaks()), "figures/throughput_cpu.svg");
        assert!(svg.contains("Bar: 95 % interval, n = 3 to 6.") && !svg.contains("MAD"), "{svg}");
    }

    #[test]
    fn the_confidence_the_note_and_the_spread_of_a_roof_reach_the_page() {
        use crate::analysis::peaks::{Confidence, Spread};
        let mut peaks = measured_peaks(250e9, 20e9);
        peaks.confidence = Confidence::Low;
        peaks.note = Some("measured on battery".to_owned());
        peaks.warnings = vec!["others kept 1.20 processors busy".to_owned()];
        peaks.flops[0].spread = Some(Spread { n: 3, median: 240e9, mad: Some(2e9) });
        peaks.bandwidth_spread = Some(Spread { n: 1, median: 20e9, mad: None });
        let study = StudyBuilder::new().peaks(peaks).runs("cpu", "resnet18", 16, &[10.0, 10.1]).build();
        let files = rendered(&study);
        for words in [
            "; best of 3, median 240.0, MAD 2.0",
            "; best of 1, median 20.00",
            "low",
            "measured on battery; others kept 1.20 processors busy",
        ] {
            let pages = ["report.md", "report.html"].map(|page| text(&files, page));
            assert!(pages.iter().all(|page| page.contains(words)), "{words} is missing");
        }
        assert!(text(&files, "figures/roofline_cpu.svg").contains("Roofs (confidence low):"));
    }

    #[test]
    fn a_template_with_an_unknown_name_is_refused() {
        let study = study_with_peaks();
        let templates = Templates { markdown: "{{ matirx }}".to_owned(), ..Templates::default() };
        let error = render(&study, &analyse(&study), &templates, &RunLinks::none(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "cannot render the template of report.md");
    }
}
