//! Finds the images of a data set, as torchvision's `ImageFolder` does.
//!
//! A class is a directory; classes are numbered in the order of their names. Its images are all files below it that end
//! in one of `EXTENSIONS`; links are followed.

use std::path::{Path, PathBuf};

use super::error::DataError;
use super::extensions::EXTENSIONS;

/// A data set's images with their classes; every class has at least one.
#[derive(Clone, Debug)]
pub(crate) struct ImageFolder {
    /// The directory that contains the classes.
    pub root: PathBuf,
    /// The names of the classes, in order.
    pub classes: Vec<String>,
    /// Path and class of each image, in the order of classes, then of paths.
    pub images: Vec<(PathBuf, u32)>,
}

impl ImageFolder {
    /// Lists `<folder>/train/<class>/…`, or `<folder>/<class>/…` if there is no `train`.
    ///
    /// # Errors
    /// There is no such folder, a directory cannot be listed, or there are no classes, no images, or a class without
    /// images.
    pub(crate) fn scan(folder: &Path) -> Result<ImageFolder, DataError> {
        if !folder.is_dir() {
            return Err(DataError::NoFolder(folder.to_owned()));
        }
        let train = folder.join("train");
        let root = if train.is_dir() { train } else { folder.to_owned() };
        let directories: Vec<PathBuf> =
            list(&root)?.into_iter().filter(|entry| entry.directory).map(|entry| entry.path).collect();
        if directories.is_empty() {
            return Err(DataError::NoClasses(root));
        }
        let (mut classes, mut images, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (class, directory) in (0u32..).zip(&directories) {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut paths = Vec::new();
            walk(directory, &mut Vec::new(), &mut paths)?;
            if paths.is_empty() {
                empty.push(name.clone());
            }
            classes.push(name);
            images.extend(paths.into_iter().map(|path| (path, class)));
        }
        if images.is_empty() {
            return Err(DataError::NoImages(root));
        }
        if !empty.is_empty() {
            return Err(DataError::EmptyClasses { folder: root, classes: empty });
        }
        Ok(ImageFolder { root, classes, images })
    }
}

struct Entry {
    path: PathBuf,
    directory: bool,
}

/// The entries of a directory, sorted by the bytes of their names, as Python sorts UTF-8 names.
fn list(directory: &Path) -> Result<Vec<Entry>, DataError> {
    let failed = |source| DataError::List { path: directory.to_owned(), source };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        // Only links cost another system call: ImageNet has 1.3 million files.
        let is_directory = kind.is_dir() || (kind.is_symlink() && path.is_dir());
        entries.push(Entry { path, directory: is_directory });
    }
    entries.sort_by(|a, b| a.path.as_os_str().as_encoded_bytes().cmp(b.path.as_os_str().as_encoded_bytes()));
    Ok(entries)
}

/// Adds the images below `directory`: its own first, then those of each subdirectory. `above` has the real paths of the
/// directories on the way down, so that a link to one of them does not make a loop.
fn walk(directory: &Path, above: &mut Vec<PathBuf>, images: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let real = std::fs::canonicalize(directory)
        .map_err(|source| DataError::List { path: directory.to_owned(), source })?;
    if above.contains(&real) {
        return Ok(());
    }
    above.push(real);
    let (directories, files): (Vec<Entry>, Vec<Entry>) =
        list(directory)?.into_iter().partition(|entry| entry.directory);
    images.extend(files.into_iter().map(|entry| entry.path).filter(|path| is_image(path)));
    for entry in directories {
        walk(&entry.path, above, images)?;
    }
    above.pop();
    Ok(())
}

fn is_image(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    EXTENSIONS.iter().any(|extension| name.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Dir, touch};
    use super::*;

    fn message(folder: &Path) -> String {
        ImageFolder::scan(folder).unwrap_err().to_string()
    }

    #[test]
    fn classes_and_images_come_in_torchvisions_order() {
        let dir = Dir::new("order");
        for name in
            ["b/2.jpg", "b/10.JPEG", "b/sub/1.png", "B/x.webp", "a/notes.txt", "a/z.jpeg", "readme.md"]
        {
            touch(&dir.path().join(name));
        }
        let found = ImageFolder::scan(dir.path()).unwrap();
        assert_eq!(found.classes, ["B", "a", "b"]);
        let names: Vec<(String, u32)> = found
            .images
            .iter()
            .map(|(path, class)| (path.strip_prefix(dir.path()).unwrap().display().to_string(), *class))
            .collect();
        let expected =
            [("B/x.webp", 0), ("a/z.jpeg", 1), ("b/10.JPEG", 2), ("b/2.jpg", 2), ("b/sub/1.png", 2)];
        assert_eq!(names, expected.map(|(name, class)| (name.to_owned(), class)));
    }

    #[test]
    fn train_is_taken_where_it_exists() {
        let dir = Dir::new("train");
        touch(&dir.path().join("train/cat/1.jpg"));
        touch(&dir.path().join("val/cat/1.jpg"));
        let found = ImageFolder::scan(dir.path()).unwrap();
        assert_eq!(found.root, dir.path().join("train"));
        assert_eq!(found.images.len(), 1);
    }

    #[test]
    fn an_invalid_data_set_is_refused_by_name() {
        let dir = Dir::new("refused");
        let root = dir.path().display().to_string();
        let missing = dir.path().join("missing");
        assert_eq!(
            message(&missing),
            format!("data folder {root}/missing does not exist or is not a folder")
        );
        assert!(message(dir.path()).contains("has no classes: expected one directory of images per class"));
        touch(&dir.path().join("cat/notes.txt"));
        assert!(
            message(dir.path()).starts_with(&format!("no class in data folder {root} has an image (.jpg"))
        );
        touch(&dir.path().join("dog/1.jpg"));
        assert!(message(dir.path()).ends_with("webp): cat"), "{}", message(dir.path()));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_not_in_circles() {
        let dir = Dir::new("links");
        touch(&dir.path().join("elsewhere/1.jpg"));
        touch(&dir.path().join("set/cat/2.jpg"));
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join("set/cat/link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("set/cat"), dir.path().join("set/cat/circle")).unwrap();
        assert_eq!(ImageFolder::scan(&dir.path().join("set")).unwrap().images.len(), 2);
    }
}
