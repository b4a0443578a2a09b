//! Every page of the book, and every other Markdown page at the top, is one test.

use libtest_mimic::{Arguments, Trial};
use tilewright_filetest::{book, repository};

fn main() {
    let arguments = Arguments::from_args();
    let root = repository();
    let mut pages = Vec::new();
    for folder in [root.clone(), root.join("docs"), root.join("machines")] {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        pages.extend(
            entries.flatten().map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "md")),
        );
    }
    pages.sort();
    let trials = pages.into_iter().map(|path| {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        Trial::test(name, move || book::check(&path).map_err(Into::into))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
