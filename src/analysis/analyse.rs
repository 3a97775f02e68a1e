//! Derives the content of a report from a study.

use super::axes::{self, Effect};
use super::bound::{self, Class};
use super::brief::{BriefLine, Known, brief};
use super::classes;
use super::fastest::fastest;
use super::findings::{self, Finding};
use super::group::{self, Row};
use super::line::{self, Line};
use super::marks;
use super::operators::Breakdown;
use super::order;
use super::own::Own;
use super::replaced::add_replaced;
use super::roofline::{self, Roofline};
use super::scaling::{self, Curve};
use super::sequence::{self, Sequence};
use super::tradeoff::{self, Tradeoff};
use super::{Cell, Run, Study};
use crate::job::varying_parameters;
use crate::threads;

/// The content of a report.
#[derive(Clone, Debug)]
pub struct Analysis<'a> {
    /// Every job of the plan, ordered by config, repeat and kind.
    pub runs: Vec<Run<'a>>,
    /// One row per config and circumstances, in the same order.
    pub rows: Vec<Row<'a>>,
    /// One roofline per device with peaks, by env.
    pub rooflines: Vec<Roofline<'a>>,
    /// The breakdown of the time of each row, in their order; `None` without a profile.
    pub breakdowns: Vec<Option<Breakdown<'a>>>,
    /// The limit of each row, in their order.
    pub classes: Vec<Class>,
    /// Effect of each axis.
    pub axes: Vec<Effect>,
    /// The five lines at the top.
    pub brief: Vec<BriefLine>,
    /// The fastest row of each network in each env, by its index.
    pub fastest: Vec<usize>,
    /// The lines: rows that differ only in the batch.
    pub lines: Vec<Line>,
    /// The growth of throughput with the batch.
    pub curves: Vec<Curve>,
    /// The runs of each machine, by time.
    pub sequences: Vec<Sequence>,
    /// Cost against throughput, by price, network and unit.
    pub tradeoffs: Vec<Tradeoff>,
    /// The findings, as sentences.
    pub findings: Vec<Finding>,
    /// The names of the parameters that differ between configs.
    pub varying: Vec<String>,
    /// The names of parameters and metrics with separate columns.
    pub own: Own,
}

/// The runs and rows that the rest of a report is derived from.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Every job of the plan, ordered by config, repeat and kind.
    pub runs: Vec<Run<'a>>,
    /// One row per config and circumstances, in the same order.
    pub rows: Vec<Row<'a>>,
    /// The names of the parameters that differ between configs.
    pub varying: Vec<String>,
}

/// Derives everything from `study`.
pub fn analyse(study: &Study) -> Analysis<'_> {
    let Judged { runs, mut rows, varying } = judge(study);
    add_replaced(&mut rows, study);
    let obstacles = bound::obstacles(&rows, &study.thresholds);
    let breakdowns: Vec<Option<Breakdown<'_>>> = rows.iter().map(Breakdown::of).collect();
    let mut rooflines = roofline::rooflines(&rows, &breakdowns);
    let classes = classes::classes(&rows, obstacles, &rooflines, &breakdowns, &study.matrix.path);
    roofline::set_bounds(&mut rooflines, &classes);
    let (axes, findings) = threads::both(
        || axes::effects(&rows, &varying),
        || findings::findings(&runs, &rows, &rooflines, &classes, &study.thresholds, &study.noise),
    );
    let brief = brief(Known { runs: &runs, rows: &rows, classes: &classes, findings: &findings });
    let (own, fastest) = (Own::of(&runs), fastest(&rows));
    let lines = line::lines(&rows);
    let (curves, sequences) = (scaling::curves(&rows, &lines), sequence::sequences(&rows));
    let tradeoffs = tradeoff::tradeoffs(&rows);
    Analysis {
        runs,
        rows,
        rooflines,
        breakdowns,
        classes,
        axes,
        brief,
        fastest,
        lines,
        curves,
        sequences,
        tradeoffs,
        findings,
        varying,
        own,
    }
}

/// Decides which runs of `study` count, and derives their rows.
pub fn judge(study: &Study) -> Judged<'_> {
    let thresholds = study.thresholds;
    let mut cells: Vec<&Cell> = study.cells.iter().collect();
    order::sort(&mut cells, &study.declared, |cell| cell.job.key());
    let marks = marks::marks(&cells, &study.spans, &study.idle, &thresholds);
    let include_marked = study.include_marked;
    let runs: Vec<Run<'_>> =
        cells.into_iter().zip(marks).map(|(cell, marks)| Run { cell, marks, include_marked }).collect();
    let varying = varying_parameters(runs.iter().map(|run| run.cell.job.key()));
    let mut rows = group::rows(&runs, &varying, study);
    let doubts = marks::row_marks(&rows, &varying, &thresholds);
    for (row, doubts) in rows.iter_mut().zip(doubts) {
        row.doubts = doubts;
    }
    Judged { runs, rows, varying }
}
