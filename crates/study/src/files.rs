//! The files of a case study besides its data: one page, figures as SVG, traces of the blocks that were
//! looked at.

use tilewright_machine::Tcp;

use crate::llama::Study;
use crate::{bands_text, curves, figure10, figure13, figure14, page};

/// Names and contents of the files that show a study.
pub fn files(machine: &Tcp, study: &Study) -> Vec<(String, Vec<u8>)> {
    let seen = study.prompts_seen();
    let mut files = vec![
        ("study.html".to_string(), page::page(machine, study).into_bytes()),
        ("figures.svg".to_string(), curves::figures(&study.figure11, &study.figure12).into_bytes()),
        ("figure13.svg".to_string(), figure13::picture(&seen, study.hz).into_bytes()),
    ];
    if let Some(figure) = &study.figure10 {
        files.push(("figure10.svg".to_string(), figure10::picture(machine, figure).into_bytes()));
    }
    if let Some(figure) = &study.figure14 {
        files.push(("figure14.svg".to_string(), figure14::picture(figure, study.hz).into_bytes()));
    }
    if let Some(bands) = study.bands.as_ref().filter(|bands| !bands.figures.is_empty()) {
        files.push(("tornado.svg".to_string(), bands_text::tornado(bands).into_bytes()));
    }
    for (tokens, seen) in seen {
        files.push((format!("block-{tokens}.pftrace"), seen.trace.clone()));
    }
    files
}
