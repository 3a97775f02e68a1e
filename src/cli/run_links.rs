//! Where a page finds the files of runs: in the store, if the report lies below the directory that holds the store, so
//! that both can move together. A page that lies elsewhere has no links, for they would name places of this machine.

use std::path::{Component, Path, PathBuf};

use crate::analysis::Cell;
use crate::report::RunLinks;

/// Links from a page in `page` to the directories of `cells` in the `store`, of those that exist.
pub(super) fn run_links(store: &Path, page: &Path, cells: &[Cell]) -> RunLinks {
    let Some(way) = way(store, page) else { return RunLinks::none() };
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    let exists = |cell: &&Cell| store.join(cell.job.dir_name()).is_dir();
    RunLinks::new(&way, cells.iter().filter(exists).map(|cell| &cell.job))
}

/// The way from `page` to `store`: up to the directory that holds the store, and down. Browsers go by the names alone,
/// so links in the file system are not followed here either.
fn way(store: &Path, page: &Path) -> Option<Vec<String>> {
    let (store, page) = (plain(store)?, plain(page)?);
    let below = page.strip_prefix(store.parent()?).ok()?;
    let mut way = vec!["..".to_owned(); below.components().count()];
    way.push(store.file_name()?.to_str()?.to_owned());
    Some(way)
}

/// `path` from the root on; `None` if it goes up again.
fn plain(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.components().all(|component| component != Component::ParentDir).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_beside_the_store_leads_there_and_any_other_page_does_not() {
        let told = |store: &str, page: &str| way(Path::new(store), Path::new(page)).map(|way| way.join("/"));
        assert_eq!(told("runs", "report/m").as_deref(), Some("../../runs"));
        assert_eq!(told("/p/a/runs", "/p/a/runs/m").as_deref(), Some("../../runs"));
        assert_eq!(told("/p/a/my runs/", "/p/a/m").as_deref(), Some("../my runs"));
        assert_eq!(told("/p/a/runs", "/p/a").as_deref(), Some("runs"));
        for (store, page) in
            [("/p/a/runs", "/p/b/m"), ("/p/a/runs", "/p"), ("../runs", "report/m"), ("/", "/m")]
        {
            assert_eq!(told(store, page), None, "{store} {page}");
        }
    }
}
