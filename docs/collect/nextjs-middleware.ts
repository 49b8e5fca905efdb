// Tells Copydesk which pages agents read. Next.js 16: save as proxy.ts; before that, and for other sites on Vercel:
// middleware.ts. Set COPYDESK_URL, COPYDESK_PROJECT and COPYDESK_API_KEY, a key with the scope events.
//
// Browsers are left to the beacon: they move from page to page without asking the server for one.

type Waiting = { waitUntil(work: Promise<unknown>): void };

const PAGE_TYPES = /^(text\/html|application\/xhtml\+xml|text\/(x-)?markdown)/i;
const FOR_MODELS = /(\.mdx?|\.markdown|\/llms(-full)?\.txt)$/i; // pages for machines, often sent as plain text
const CHECKING = "x-copydesk-check";
const TRIES = 4;
const MOST_KNOWN = 5000;

export const config = {
  matcher: [
    {
      source: "/((?!api/|_next/|_vercel/|.*\\.(?:css|js|mjs|map|json|xml|ico|png|jpe?g|gif|svg|webp|avif|woff2?|ttf|mp4)$).*)",
      missing: [
        { type: "header", key: "sec-fetch-dest" },
        { type: "header", key: "x-copydesk-check" },
      ],
    },
  ],
};

export default function middleware(request: Request, event: Waiting): void {
  const asked = request.headers;
  if (request.method !== "GET" || asked.has("sec-fetch-dest") || asked.has(CHECKING)) return;
  event.waitUntil(noticed(request.url, asked).catch((fault) => console.error(`A view was not told to Copydesk: ${fault}`)));
}

async function noticed(url: string, asked: Headers): Promise<void> {
  const seen = {
    url,
    userAgent: asked.get("user-agent"),
    accept: asked.get("accept"),
    referrer: asked.get("referer"),
    ip: asked.get("x-real-ip") ?? asked.get("x-forwarded-for")?.split(",")[0].trim(),
    timestamp: Date.now(),
    eventId: crypto.randomUUID(), // so that an event which is sent again counts once
  };
  if (await isPage(url, asked)) await tell(seen);
}

// This runs before there is an answer, and agents guess many addresses that do not exist: so the page is asked for
// once more, by HEAD, and what it answered is remembered.
const known = new Map<string, boolean>();

async function isPage(url: string, asked: Headers): Promise<boolean> {
  const { origin, pathname } = new URL(url);
  const accept = asked.get("accept") ?? "*/*";
  const name = `${accept.includes("markdown")} ${pathname}`;
  let found = known.get(name);
  if (found === undefined) {
    const answer = await fetch(origin + pathname, { method: "HEAD", redirect: "manual", headers: { accept, [CHECKING]: "1" } });
    const kind = answer.headers.get("content-type") ?? "";
    found = answer.ok && (PAGE_TYPES.test(kind) || FOR_MODELS.test(pathname));
    if (known.size >= MOST_KNOWN) known.clear();
    if (answer.status < 500) known.set(name, found);
  }
  return found;
}

async function tell(event: object): Promise<void> {
  const { COPYDESK_URL, COPYDESK_PROJECT, COPYDESK_API_KEY } = process.env;
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    try {
      const answer = await fetch(`${COPYDESK_URL}/v1/analytics/${COPYDESK_PROJECT}/events`, {
        method: "POST",
        headers: { Authorization: `Bearer ${COPYDESK_API_KEY}`, "Content-Type": "application/json" },
        body: JSON.stringify(event),
        redirect: "manual",
      });
      if (answer.ok) return;
      const said = await answer.text();
      if (answer.status !== 429 && answer.status < 500) {
        console.error(`Copydesk refused a view: ${answer.status} ${said}`);
        return;
      }
    } catch (fault) {
      console.error(`Copydesk cannot be reached: ${fault}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 250 * 4 ** (attempt - 1) * (0.5 + Math.random())));
  }
}
