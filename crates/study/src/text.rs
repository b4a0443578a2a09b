//! The study as text.

use crate::llama::Study;
use crate::{
    bands_text, curves, figure10, figure13, figure14, layout, operators, parts, power, table2, whatif,
};

/// What passes have besides their programs, and what that figure was fitted to.
fn latency(study: &Study) -> String {
    let fitted = match study.latency.fitted_to.as_slice() {
        [] => String::new(),
        rows => format!(", fitted to {}", rows.join(" and ")),
    };
    format!(
        "\nEvery pass has {:.3} ms besides its programs ({}{fitted}); Figs 11 and 12 have it as Table II \
         does, all other times are those of the programs alone.\n",
        study.latency_ms, study.latency.figure
    )
}

/// The study as text.
pub fn print(study: &Study) -> String {
    let mut text = format!(
        "{} on {}, {} weights and activations{}, {}; every time is that of a simulated program.\n\nTable II \
         (published values of L40S, H100 and TCP; ours beside them)\n\n{}",
        study.model,
        study.chip,
        study.dtype,
        study.scaled(),
        study.where_on(),
        table2::text(&study.table2)
    );
    if !study.papers {
        text += "\nNot what the paper measured: nothing is published of it.\n";
    }
    text += &latency(study);
    text += &study.bands.as_ref().map_or(String::new(), bands_text::text);
    if let Some(figure) = &study.figure10 {
        text += &format!("\nFig. 10: queries times keys on one PE\n\n{}", figure10::text(figure));
    }
    for (title, points) in
        [("Fig. 11: first token", &study.figure11), ("Fig. 12: next token", &study.figure12)]
    {
        if !points.is_empty() {
            text += &format!("\n{title}\n\n{}", curves::text(points));
        }
    }
    if !study.figure13.is_empty() {
        text += &format!(
            "\nFig. 13: a decoder block on one PE, run by run: parts in which tensor unit and DMA engine \
             run, and how much of the shorter is hidden\n\n{}",
            figure13::text(&study.figure13)
        );
    }
    if let Some(figure) = &study.figure14 {
        text += &format!(
            "\nFigs 14 and 15: tactics of Fig. 10, least and most power of their time, by closed forms and \
             not simulated\n\n{}",
            figure14::text(figure)
        );
    }
    for (title, breakdown) in [("128", &study.operators_128), ("2048", &study.operators_2048)] {
        if !breakdown.operators.is_empty() {
            text += &format!(
                "\nOperators of a block of a prompt of {title}: cycles of one PE over all its runs, energy \
                 of all PEs\n\n{}",
                operators::text(breakdown)
            );
        }
    }
    if let Some(found) = &study.layout {
        text += &format!("\nHow a block is laid out\n\n{}", layout::text(found));
    }
    text += &format!("\nIf off-chip memory were twice as fast\n\n{}", whatif::text(&study.twice_hbm));
    text += &format!("\nPower, by the energy model and by TDP\n\n{}", power::text(&study.power));
    for (title, of) in [("128", &study.prefill_128), ("2048", &study.prefill_2048)] {
        text +=
            &format!("\nWhere the time of a prompt of {title} goes (mean over PEs)\n\n{}", parts::text(of));
    }
    for why in &study.missing {
        text += &format!("\nnot measured: {why}\n");
    }
    text
}
