//! The study as one HTML page.

use tilewright_machine::Tcp;

use crate::llama::Study;
use crate::pictures::escape;
use crate::{bands_text, curves, figure10, figure13, figure14, layout, operators, power, table2, whatif};

const STYLE: &str = "body{font:15px sans-serif;margin:2em;max-width:1200px}table{border-collapse:collapse}\
                     td,th{border:1px solid #ccc;padding:.3em .6em;text-align:right}\
                     td:first-child,td:nth-child(2){text-align:left}\
                     pre{background:#f6f6f6;padding:1em;overflow-x:auto}svg{max-width:100%;height:auto}";

/// The page.
pub fn page(machine: &Tcp, study: &Study) -> String {
    let missing: String =
        study.missing.iter().map(|why| format!("<p>Not measured: {}</p>\n", escape(why))).collect();
    let mut body = format!(
        "<h1>{} on {}</h1>\n<p>{}{}, {}. Every time is that of a simulated program. Every pass has {:.2} ms \
         besides its programs.</p>\n\
         <h2>Table II</h2>\n<table>{}</table>\n{missing}",
        escape(&study.model),
        escape(&study.chip),
        study.dtype,
        study.scaled(),
        study.where_on(),
        study.latency_ms,
        table2::html(&study.table2)
    );
    if let Some(bands) = &study.bands {
        body += &format!("<h2>Bands</h2>\n<pre>{}</pre>\n", escape(&bands_text::text(bands)));
        if !bands.figures.is_empty() {
            body += &bands_text::tornado(bands);
        }
    }
    if let Some(figure) = &study.figure10 {
        body += &format!("<h2>Figure 10</h2>\n{}", figure10::picture(machine, figure));
    }
    body += &format!("<h2>Figures 11 and 12</h2>\n{}", curves::figures(&study.figure11, &study.figure12));
    if !study.figure13.is_empty() {
        body += &format!(
            "<h2>Figure 13</h2>\n{}<pre>{}</pre>\n",
            figure13::picture(&study.prompts_seen(), study.hz),
            escape(&figure13::text(&study.figure13))
        );
        body += "<h2>Operators of a decoder block</h2>\n";
        for (tokens, breakdown) in [("128", &study.operators_128), ("2048", &study.operators_2048)] {
            body +=
                &format!("<p>A prompt of {tokens}</p><pre>{}</pre>\n", escape(&operators::text(breakdown)));
        }
    }
    if let Some(figure) = &study.figure14 {
        body += &format!(
            "<h2>Figures 14 and 15</h2>\n{}<pre>{}</pre>\n",
            figure14::picture(figure, study.hz),
            escape(&figure14::text(figure))
        );
    }
    if let Some(found) = &study.layout {
        body += &format!("<h2>How a block is laid out</h2>\n<pre>{}</pre>\n", escape(&layout::text(found)));
    }
    body += &format!(
        "<h2>If off-chip memory were twice as fast</h2>\n<pre>{}</pre>\n",
        escape(&whatif::text(&study.twice_hbm))
    );
    body += &format!("<h2>Power</h2>\n<pre>{}</pre>\n", escape(&power::text(&study.power)));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta \
         charset=\"utf-8\"><title>{}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(&study.model)
    )
}
