//! Drawing of the model into a buffer.
//!
//! Drawing changes no state, so that tests can compare the result.

use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::Modifier;

use mendline::control::words::span_ms;

use super::detail;
use super::keys::HINTS;
use super::layout::{LEAST, Layout};
use super::model::{Mode, Model};
use super::paint::{LineWriter, Paint, Tone, cut, width};
use super::row::{Row, Sort};
use super::table;
use crate::status::names::cut_names;

/// Maximum width of the name before an event.
const WIDEST_WHO: usize = 20;

/// Draws the screen.
pub(crate) fn draw(model: &Model, paint: Paint, buffer: &mut Buffer) {
    let Some(layout) = model.layout() else {
        too_small(model.size, paint, buffer);
        return;
    };
    title(model, paint, layout.title, buffer);
    if model.mode == Mode::Help {
        help(paint, between(&layout), buffer);
    } else if model.total() == 0 {
        nothing(model, paint, between(&layout), buffer);
    } else {
        servers(model, paint, layout.table, buffer);
        details(model, paint, layout.details, buffer);
        events(model, paint, layout.events, buffer);
    }
    footer(model, paint, layout.footer, buffer);
}

/// Returns the area between title and footer.
fn between(layout: &Layout) -> Rect {
    Rect { y: 1, height: layout.footer.y - 1, ..layout.title }
}

fn line_writer<'a>(buffer: &'a mut Buffer, paint: Paint, area: Rect, line: u16) -> LineWriter<'a> {
    LineWriter::at(buffer, paint, area.x, area.y + line, area.right())
}

fn too_small(size: Size, paint: Paint, buffer: &mut Buffer) {
    let needed = format!("{}×{} needed", LEAST.width, LEAST.height);
    let lines = ["too small", needed.as_str(), "q quits"];
    let first = usize::from(size.height).saturating_sub(lines.len()) / 2;
    for (index, text) in lines.iter().enumerate().take(size.height.into()) {
        let text = cut(text, size.width.into());
        let x = u16::try_from((usize::from(size.width) - width(&text)) / 2).unwrap_or(0);
        let y = u16::try_from(first + index).unwrap_or(0);
        LineWriter::at(buffer, paint, x, y, size.width).write(Tone::Plain, &text);
    }
}

fn title(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    let mut marks = Vec::new();
    if model.is_paused {
        marks.push("paused".to_owned());
    }
    if !model.filter.is_empty() {
        marks.push(format!("{} of {} with \"{}\"", model.rows().len(), model.total(), model.filter));
    }
    if model.sort != Sort::Name {
        marks.push(format!("by {}", model.sort.word()));
    }
    let marks = marks.join(" · ");
    line_writer(buffer, paint, area, 0).write_right(Tone::Warning, &marks);
    // The marks have priority over the counts.
    let room = area.width.saturating_sub(u16::try_from(width(&marks)).unwrap_or(0) + 2);
    let mut line =
        line_writer(buffer, paint, Rect { width: if marks.is_empty() { area.width } else { room }, ..area }, 0);
    line.write(Tone::Bold, "mendline");
    line.skip(2);
    match model.total() {
        0 => {}
        1 => line.write(Tone::Plain, "1 server: "),
        total => line.write(Tone::Plain, &format!("{total} servers: ")),
    }
    for (index, (word, count, tone)) in model.counts().into_iter().enumerate() {
        if index > 0 {
            line.write(Tone::Plain, ", ");
        }
        line.write(tone, &format!("{count} {word}"));
    }
}

fn servers(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let rows = model.rows();
    if rows.is_empty() {
        line_writer(buffer, paint, area, 1).write(Tone::Faint, "No server matches; Esc shows all of them.");
        return;
    }
    // The first column of the screen is for the mark of the selected row.
    let columns = table::fit(&rows, area.width.saturating_sub(2));
    let mut titles = line_writer(buffer, paint, area, 0);
    titles.skip(2);
    for (column, width) in &columns {
        cell(&mut titles, *width, column.is_number, column.title, Tone::Faint);
    }
    let room = model.height_of_table();
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let width_of_names = columns.iter().find(|(column, _)| column.title == table::NAMES).map_or(0, |(_, width)| *width);
    let names = cut_names(&ids, width_of_names.into());
    for (index, row) in rows.iter().enumerate().skip(model.top).take(room) {
        let line = u16::try_from(index - model.top).unwrap_or(0) + 1;
        let mut writer = line_writer(buffer, paint, area, line);
        writer.write(Tone::Bold, if model.is_selected(row) { "▸ " } else { "  " });
        for (column, width) in &columns {
            let (mut text, tone) = (column.cell)(row);
            if column.title == table::NAMES {
                text.clone_from(&names[index]);
            }
            let tone = if row.silence.is_some() && column.title != "STATE" { Tone::Faint } else { tone };
            cell(&mut writer, *width, column.is_number, &text, tone);
        }
        if model.is_selected(row) {
            stress(area, line, buffer);
        }
    }
    let below = rows.len().saturating_sub(model.top + room);
    let hidden = [(model.top, "above"), (below, "below")];
    let hidden = hidden.iter().filter(|(count, _)| *count > 0).map(|(count, place)| format!("{count} more {place}"));
    let hidden = hidden.collect::<Vec<_>>().join(", ");
    if !hidden.is_empty() {
        // The table leaves its last line free for this.
        let mut line = line_writer(buffer, paint, area, u16::try_from(room).unwrap_or(0) + 1);
        line.skip(2);
        line.write(Tone::Faint, &hidden);
    }
}

fn cell(writer: &mut LineWriter<'_>, room: u16, is_number: bool, text: &str, tone: Tone) {
    let text = cut(text, room.into());
    let rest = room.saturating_sub(u16::try_from(width(&text)).unwrap_or(room));
    if is_number {
        writer.skip(rest);
        writer.write(tone, &text);
    } else {
        writer.write(tone, &text);
        writer.skip(rest);
    }
    writer.skip(table::GAP);
}

/// Highlights a line, whatever its colours.
fn stress(area: Rect, line: u16, buffer: &mut Buffer) {
    for x in area.left()..area.right() {
        if let Some(cell) = buffer.cell_mut((x, area.y + line)) {
            cell.modifier.insert(Modifier::REVERSED);
            cell.modifier.remove(Modifier::DIM);
        }
    }
}

fn heading(paint: Paint, area: Rect, words: &str, buffer: &mut Buffer) {
    let mut line = line_writer(buffer, paint, area, 0);
    line.write(Tone::Faint, "── ");
    line.write(Tone::Bold, words);
    line.write(Tone::Faint, " ");
    line.rule(Tone::Faint, "─");
}

fn details(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    let Some(row) = model.selected().filter(|_| area.height > 0) else { return };
    heading(paint, area, &row.id, buffer);
    let facts = detail::lines(row, model, area.width.into());
    for (line, fact) in (1..area.height).zip(facts) {
        line_writer(buffer, paint, area, line).write(Tone::Faint, fact.label);
        let mut writer = line_writer(buffer, paint, area, line);
        writer.skip(detail::LABEL);
        writer.write(fact.tone, &fact.text);
    }
}

fn events(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let below = model.events.below();
    match below {
        0 => heading(paint, area, "events", buffer),
        below => heading(paint, area, &format!("events, {below} newer below (PgDn)"), buffer),
    }
    let lines = model.shown_events();
    if lines.is_empty() {
        line_writer(buffer, paint, area, 1).write(Tone::Faint, "No events yet.");
        return;
    }
    let room = usize::from(area.height - 1);
    let end = lines.len().saturating_sub(below);
    let start = end.saturating_sub(room);
    let seen = &lines[start..end];
    let who = seen.iter().map(|line| width(&line.who)).max().unwrap_or(0).min(WIDEST_WHO);
    for (line, event) in (1..area.height).zip(seen) {
        let mut writer = line_writer(buffer, paint, area, line);
        let age = span_ms(model.now.saturating_sub(event.at));
        cell(&mut writer, 6, true, if age.ends_with("ms") { "now" } else { &age }, Tone::Faint);
        cell(&mut writer, u16::try_from(who).unwrap_or(0), false, &event.who, Tone::Bold);
        if event.said {
            writer.write(Tone::Faint, "| ");
        }
        writer.write(event.level.into(), &event.text);
    }
}

fn nothing(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    let mut lines: Vec<(Tone, &str)> = Vec::new();
    let nothing = match &model.only {
        Some(only) => format!("No server {:?} is running.", only.text()),
        None => "No Mendline is running.".to_owned(),
    };
    if model.has_polled {
        lines.extend([
            (Tone::Bold, nothing.as_str()),
            (Tone::Plain, ""),
            (Tone::Plain, "Servers appear here as soon as they run:"),
            (Tone::Plain, "  mendline wrap             for your clients' servers"),
            (Tone::Plain, "  mendline run -- COMMAND   for a single server"),
        ]);
    } else {
        lines.push((Tone::Faint, "Looking …"));
    }
    for place in &model.distrusted {
        lines.push((Tone::Error, "skipped:"));
        lines.push((Tone::Error, place));
    }
    let widest = lines.iter().map(|(_, text)| width(text)).max().unwrap_or(0);
    let indent = u16::try_from(usize::from(area.width).saturating_sub(widest) / 2).unwrap_or(0);
    let above = usize::from(area.height).saturating_sub(lines.len()) / 3;
    let above = u16::try_from(above).unwrap_or(0);
    for (line, (tone, text)) in (above..area.height).zip(lines) {
        let mut writer = line_writer(buffer, paint, area, line);
        writer.skip(indent);
        writer.write(tone, text);
    }
}

fn help(paint: Paint, area: Rect, buffer: &mut Buffer) {
    let above = u16::from(usize::from(area.height) > HINTS.len() + 1);
    for (line, hint) in (above..area.height).zip(HINTS) {
        let mut writer = line_writer(buffer, paint, area, line);
        writer.skip(1);
        cell(&mut writer, 9, true, hint.key, Tone::Bold);
        writer.write(Tone::Plain, hint.sentence);
    }
}

fn footer(model: &Model, paint: Paint, area: Rect, buffer: &mut Buffer) {
    let mut line = line_writer(buffer, paint, area, 0);
    match &model.mode {
        Mode::Filter => {
            line.write(Tone::Bold, "/");
            line.write(Tone::Plain, &model.filter);
            line.write(Tone::Bold, "▏");
            line.skip(1);
            line.write_right(Tone::Faint, "Enter keeps it, Esc shows all");
        }
        Mode::Confirm(command) => {
            line.write(Tone::Bold, &format!("Isolate {}? y/n", command.id));
            line.write(Tone::Plain, "  Its calls fail until it is resumed.");
        }
        Mode::Help => line.write(Tone::Faint, "any key returns"),
        Mode::Table => match &model.answer {
            Some(answer) => {
                line.write(if answer.is_bad { Tone::Error } else { Tone::Plain }, &answer.text);
                line.write_right(Tone::Faint, "? help");
            }
            None => hints(model.selected(), &mut line),
        },
    }
}

fn hints(selected: Option<&Row>, line: &mut LineWriter<'_>) {
    let resumes = selected.is_some_and(|row| row.word() == "isolated");
    // Without a server, only the general keys have an effect.
    let useful = if selected.is_some() { HINTS.len() } else { 2 };
    for hint in HINTS.iter().take(useful) {
        let word = if hint.key == "i" && resumes { "resume" } else { hint.word };
        if width(hint.key) + 1 + width(word) > line.left().into() {
            break;
        }
        line.write(Tone::Bold, hint.key);
        line.skip(1);
        line.write(Tone::Faint, word);
        line.skip(2);
    }
}
