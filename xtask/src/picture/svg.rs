//! A screen as an SVG picture.
//!
//! The picture has its own dark background, so that it is readable on light and on dark pages. Every word has its own
//! position and width, so that columns stay columns in every font. The plain text is the description of the picture,
//! for screen readers and for tests.

use std::fmt::Write as _;

use super::terminal::{Cell, Line, Look, WIDE};

/// The width of a column, the height of a line, and the margin, in pixels.
const COLUMN: usize = 8;
const HEIGHT: usize = 18;
const MARGIN: usize = 16;

const STYLE: &str = "\
text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #e6edf3; white-space: pre }
.faint { fill: #9aa4af } .bold { font-weight: bold }
.red { fill: #ff7b72 } .green { fill: #56d364 } .yellow { fill: #e3b341 }";

/// Returns the picture of these lines.
pub(super) fn picture(lines: &[Line]) -> String {
    let columns = lines.iter().map(|line| line.0.len()).max().unwrap_or_default();
    let (width, height) = (columns * COLUMN + 2 * MARGIN, lines.len() * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>The output of mendline demo</title>\n<desc>\n"
    );
    for line in lines {
        let _ = writeln!(svg, "{}", escaped(&line.text()));
    }
    let _ = write!(svg, "</desc>\n<style>\n{STYLE}\n</style>\n");
    let (inner_width, inner_height) = (width - 1, height - 1);
    let _ = writeln!(
        svg,
        "<rect x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"8\" fill=\"#0d1117\" \
         stroke=\"#444c56\"/>"
    );
    for (number, line) in lines.iter().enumerate() {
        let runs = runs(line);
        if runs.is_empty() {
            continue;
        }
        // The baseline is a little above the lower edge of the line.
        let _ = write!(svg, "<text y=\"{}\">", MARGIN + (number + 1) * HEIGHT - 5);
        for run in runs {
            let _ = write!(
                svg,
                "<tspan x=\"{}\" textLength=\"{}\"{}>{}</tspan>",
                MARGIN + run.column * COLUMN,
                run.columns * COLUMN,
                class(run.look),
                escaped(&run.text)
            );
        }
        svg += "</text>\n";
    }
    svg + "</svg>\n"
}

/// Letters next to each other with the same look.
struct Run {
    column: usize,
    columns: usize,
    look: Look,
    text: String,
}

/// Splits a line at double spaces, at changes of the look and at wide characters.
fn runs(line: &Line) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let is_space = |cell: Option<&Cell>| cell.is_none_or(|cell| cell.letter == ' ');
    let mut is_joined = false;
    for (column, cell) in line.0.iter().enumerate() {
        let is_gap = cell.letter == ' ' && (!is_joined || is_space(line.0.get(column + 1)));
        if is_gap {
            is_joined = false;
            continue;
        }
        match runs.last_mut() {
            Some(run) if cell.letter == WIDE => {
                run.columns += 1;
                is_joined = false;
            }
            Some(run) if is_joined && run.look == cell.look && cell.letter != '⚡' => {
                run.columns += 1;
                run.text.push(cell.letter);
            }
            _ => {
                runs.push(Run { column, columns: 1, look: cell.look, text: cell.letter.to_string() });
                is_joined = true;
            }
        }
    }
    runs
}

fn class(look: Look) -> String {
    let colour = match look.colour {
        Some(1) => "red",
        Some(2) => "green",
        Some(3) => "yellow",
        _ if look.is_faint => "faint",
        _ => "",
    };
    let weight = if look.is_bold { "bold" } else { "" };
    match (colour, weight) {
        ("", "") => String::new(),
        ("", class) | (class, "") => format!(" class=\"{class}\""),
        (colour, weight) => format!(" class=\"{colour} {weight}\""),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::terminal::screen;
    use super::*;

    #[test]
    fn every_column_keeps_its_position() {
        let svg = picture(&screen("a b  c\u{1b}[31m⚡\u{1b}[0m<d"));
        assert!(svg.contains("<tspan x=\"16\" textLength=\"24\">a b</tspan>"), "{svg}");
        assert!(svg.contains("<tspan x=\"56\" textLength=\"8\">c</tspan>"), "{svg}");
        assert!(svg.contains("<tspan x=\"64\" textLength=\"16\" class=\"red\">⚡</tspan>"), "{svg}");
        assert!(svg.contains("<tspan x=\"80\" textLength=\"16\">&lt;d</tspan>"), "{svg}");
        assert!(svg.contains("<desc>\na b  c⚡&lt;d\n</desc>"), "{svg}");
    }
}
