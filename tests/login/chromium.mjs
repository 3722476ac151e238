// A person with a browser: opens an address in Chromium, fills in the login page and confirms.
//
//     chromium.mjs FOLDER ADDRESS
//
// The folder gets a line for each step and a picture of the last page. `MENDLINE_CHROMIUM` names the program.

import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

const [folder, address] = process.argv.slice(2);
const note = line => appendFileSync(join(folder, 'visits'), `${line}\n`);
const ARGUMENTS = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
];

note('begun');
const context = await chromium.launchPersistentContext(join(folder, `profile-${process.pid}`), {
    executablePath: process.env.MENDLINE_CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: ARGUMENTS,
    viewport: { width: 900, height: 600 },
});
try {
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    await page.goto(address);
    const start = new URL(address).host;
    // The pages of the provider: a login, a consent, or both. The callback is at another port.
    for (let pages = 0; pages < 5 && new URL(page.url()).host === start; pages += 1) {
        const [login, password] = [page.locator('input[name=login], input[name=sub]'), page.locator('input[name=password]')];
        if (await login.count()) await login.first().fill('ada');
        if (await password.count()) await password.first().fill('anything');
        const before = page.url();
        await page.locator('button[type=submit], form button').first().click();
        await page.waitForURL(url => url.href !== before);
    }
    await page.waitForLoadState('load');
    note(`ended ${await page.title()}`);
    note(`text ${(await page.locator('body').innerText()).replaceAll('\n', ' | ')}`);
    await page.screenshot({ path: join(folder, 'page.png') });
} catch (why) {
    note(`failed ${why.message.replaceAll('\n', ' | ')}`);
    process.exitCode = 1;
} finally {
    await context.close();
}
