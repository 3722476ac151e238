//! Layout of the screen.
//!
//! One line is for the title, one for the keys. Between them the table takes the rows that it needs, events take the
//! rest, and details come in between if they are open. If there is no room for all three, open details take everything.

use ratatui::layout::{Rect, Size};

/// Minimum size of the screen.
pub(crate) const LEAST: Size = Size { width: 40, height: 8 };

/// Minimum height of events, with their heading.
const EVENTS: u16 = 4;

/// Minimum height for events beside the table.
const ROOM_FOR_EVENTS: u16 = 10;

/// Minimum height for details beside the table.
const ROOM_FOR_DETAILS: u16 = 18;

/// Minimum height at which details are open by default.
const ROOMY: u16 = 26;

/// The areas of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) title: Rect,
    /// With its line of titles; empty if details take everything.
    pub(crate) table: Rect,
    /// With its heading.
    pub(crate) details: Rect,
    /// With its heading.
    pub(crate) events: Rect,
    pub(crate) footer: Rect,
}

/// The content to lay out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LayoutRequest {
    /// Number of servers.
    pub(crate) rows: usize,
    /// Number of lines of details, if they are open.
    pub(crate) details: Option<usize>,
    pub(crate) events: bool,
}

/// Returns whether details are open by default.
pub(crate) fn is_roomy(size: Size) -> bool {
    body(size) >= ROOMY
}

impl Layout {
    /// Returns the layout, or `None` if the screen is too small.
    pub(crate) fn of(size: Size, wanted: LayoutRequest) -> Option<Layout> {
        if size.width < LEAST.width || size.height < LEAST.height {
            return None;
        }
        let body = body(size);
        let details = match wanted.details {
            None => 0,
            Some(_) if body < ROOM_FOR_DETAILS => body,
            Some(lines) => lines_of(lines).saturating_add(1).min(body * 2 / 5),
        };
        let rest = body - details;
        let events = if wanted.events && rest >= ROOM_FOR_EVENTS { EVENTS.max(rest / 3) } else { 0 };
        let table = match events {
            0 => rest,
            _ => lines_of(wanted.rows).saturating_add(2).clamp(4, rest - events),
        };
        let events = if events > 0 { rest - table } else { 0 };
        let mut y = 0;
        let mut next = |height: u16| {
            let rect = Rect { x: 0, y, width: size.width, height };
            y += height;
            rect
        };
        Some(Layout {
            title: next(1),
            table: next(table),
            details: next(details),
            events: next(events),
            footer: next(1),
        })
    }
}

fn body(size: Size) -> u16 {
    size.height.saturating_sub(2)
}

fn lines_of(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn open_details_take_a_small_screen() {
        let size = Size { width: 60, height: 15 };
        let layout = Layout::of(size, LayoutRequest { rows: 3, details: Some(9), events: true }).unwrap();
        assert_eq!((layout.table.height, layout.details.height, layout.events.height), (0, 13, 0));
        let layout = Layout::of(size, LayoutRequest { rows: 30, details: None, events: true }).unwrap();
        assert_eq!((layout.table.height, layout.events.height), (9, 4));
    }

    proptest! {
        #[test]
        fn areas_cover_every_line_of_the_screen_once(
            width in 0..300u16, height in 0..200u16, rows in 0..500usize, details in proptest::option::of(0..40usize), events: bool,
        ) {
            let size = Size { width, height };
            match Layout::of(size, LayoutRequest { rows, details, events }) {
                None => prop_assert!(width < LEAST.width || height < LEAST.height),
                Some(layout) => {
                    let parts = [layout.title, layout.table, layout.details, layout.events, layout.footer];
                    let mut y = 0;
                    for part in parts {
                        prop_assert_eq!(part.y, y);
                        y += part.height;
                    }
                    prop_assert_eq!(y, height);
                    prop_assert!(layout.table.height >= 4 || layout.details.height > 0);
                }
            }
        }
    }
}
