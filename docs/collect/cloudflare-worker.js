// Passes every request on as it is, and tells Copydesk which pages were read: people and agents alike, cached or not.
//
// Variables: COPYDESK_URL, COPYDESK_PROJECT, and the secret COPYDESK_API_KEY, a key with the scope events.
// COPYDESK_BEACON = "1" where the pages have the beacon too: browsers are then left to it.

const PAGE_TYPES = /^(text\/html|application\/xhtml\+xml|text\/(x-)?markdown)/i;
const FOR_MODELS = /(\.mdx?|\.markdown|\/llms(-full)?\.txt)$/i; // pages for machines, often sent as plain text
const TRIES = 4;

export default {
  async fetch(request, env, context) {
    context.passThroughOnException();
    const response = await fetch(request);
    if (isView(request, response, env)) context.waitUntil(tell(eventOf(request, response), env));
    return response;
  },
};

function isView(request, response, env) {
  const asked = request.headers;
  if (request.method !== "GET" || !(response.ok || [304, 404, 410].includes(response.status))) return false;
  if (["sec-purpose", "purpose", "x-moz"].some((name) => asked.get(name)?.includes("pre"))) return false;
  if (env.COPYDESK_BEACON === "1" && asked.has("sec-fetch-dest")) return false;
  if (FOR_MODELS.test(new URL(request.url).pathname)) return true;
  // With a 304 nothing is sent again, so what was asked for has to tell.
  const kind = response.headers.get("content-type") ?? (response.status === 304 ? asked.get("accept") : "");
  return PAGE_TYPES.test(kind ?? "");
}

function eventOf(request, response) {
  return {
    url: request.url,
    status: response.status,
    userAgent: request.headers.get("user-agent"),
    accept: request.headers.get("accept"),
    referrer: request.headers.get("referer"),
    ip: request.headers.get("cf-connecting-ip"),
    timestamp: Date.now(),
    eventId: crypto.randomUUID(), // so that an event which is sent again counts once
  };
}

async function tell(event, env) {
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    try {
      const answer = await fetch(`${env.COPYDESK_URL}/v1/analytics/${env.COPYDESK_PROJECT}/events`, {
        method: "POST",
        headers: {"Authorization": `Bearer ${env.COPYDESK_API_KEY}`, "Content-Type": "application/json"},
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
