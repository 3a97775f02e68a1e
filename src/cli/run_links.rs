//! Links from a report's page to the files of runs in the store, such as `../../runs/…`. They are relative, so they
//! exist only if the page is below the parent directory of the store: both can then be moved together.

use std::path::{Component, Path, PathBuf};

use crate::analysis::Cell;
use crate::report::RunLinks;

/// Links from a page in the directory `page` to the existing directories of `cells` in the `store`.
pub(super) fn run_links(store: &Path, page: &Path, cells: &[Cell]) -> RunLinks {
    let Some(path) = relative_path(store, page) else { return RunLinks::none() };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let exists = |cell: &&Cell| store.join(cell.job.dir_name()).is_dir();
    RunLinks::new(&path, cells.iter().filter(exists).map(|cell| &cell.job))
}

/// The path from `page` to `store`: up to the parent of the store, and down. Browsers resolve it by names only, so
/// symbolic links are not resolved here either.
fn relative_path(store: &Path, page: &Path) -> Option<Vec<String>> {
    let (store, page) = (absolute_path(store)?, absolute_path(page)?);
    let below = page.strip_prefix(store.parent()?).ok()?;
    let mut path = vec!["..".to_owned(); below.components().count()];
    path.push(store.file_name()?.to_str()?.to_owned());
    Some(path)
}

/// The absolute form of `path`; `None` if it contains `..`.
fn absolute_path(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.components().all(|component| component != Component::ParentDir).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_near_the_store_have_links() {
        let link = |store: &str, page: &str| {
            relative_path(Path::new(store), Path::new(page)).map(|path| path.join("/"))
        };
        assert_eq!(link("runs", "report/m").as_deref(), Some("../../runs"));
        assert_eq!(link("/p/a/runs", "/p/a/runs/m").as_deref(), Some("../../runs"));
        assert_eq!(link("/p/a/my runs/", "/p/a/m").as_deref(), Some("../my runs"));
        assert_eq!(link("/p/a/runs", "/p/a").as_deref(), Some("runs"));
        for (store, page) in
            [("/p/a/runs", "/p/b/m"), ("/p/a/runs", "/p"), ("../runs", "report/m"), ("/", "/m")]
        {
            assert_eq!(link(store, page), None, "{store} {page}");
        }
    }
}
