// Calls every operation of a running Copydesk with the client that @hey-api/openapi-ts generated. Its functions check
// each response against the schema. Usage: node typescript_calls.js URL KEY PROJECT SITE. Prints the operations called.

import assert from "node:assert/strict";
import * as sdk from "./client/sdk.gen.js";
import { client } from "./client/client.gen.js";
import type { ErrorResponse, JobResponse, SnippetResponse } from "./client/types.gen.js";

const [URL_, KEY, PROJECT, SITE] = process.argv.slice(2) as [string, string, string, string];
const PAGE = "https://docs.example.com/install";
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";
const DAY = 24 * 3600 * 1000;
const NO_JOB = "job_" + "0".repeat(26);

client.setConfig({ baseUrl: URL_, auth: () => KEY });
const called = new Set<string>();
const path = { projectId: PROJECT };

type Result<T> = { data?: T; error?: unknown; response?: Response };

// Returns the body, after checking the status. A body that does not match its schema is an error, too.
async function read<T>(name: keyof typeof sdk, request: Promise<Result<T>>, status = 200): Promise<T> {
  called.add(name);
  const { data, error, response } = await request;
  assert.equal(response?.status, status, `${name}: ${JSON.stringify(error) ?? error}`);
  assert.equal(error, undefined, `${name}: ${error}`);
  assert.notEqual(data, undefined, name);
  return data as T;
}

async function refuse(name: keyof typeof sdk, request: Promise<Result<unknown>>, status: number, code: string) {
  called.add(name);
  const { error, response } = await request;
  assert.equal(response?.status, status, name);
  assert.equal((error as ErrorResponse).code, code, name);
}

const day = (offset: number) => new Date(Date.now() + offset * DAY).toISOString().slice(0, 10);

async function callPublicRoutes() {
  assert.equal((await read("healthz", sdk.healthz())).status, "ok");
  assert.equal((await read("readyz", sdk.readyz())).status, "ready");
  assert.match(await read("metrics", sdk.metrics()), /copydesk/);
  assert.match(String(await read("beacon", sdk.beacon({ parseAs: "text" }))), /copydesk/);
  for (const body of [
    { u: PAGE, v: "grace" },
    { k: "search" as const, u: PAGE, q: "install", n: 3, v: "grace" },
    { k: "feedback" as const, u: PAGE, h: false, c: "Too short." },
  ]) {
    assert.equal((await read("sendBeacon", sdk.sendBeacon({ path: { siteId: SITE }, body }), 202)).accepted, 1);
  }
  const image = (await read("pixel", sdk.pixel({ path: { siteId: SITE }, query: { u: PAGE } }))) as Blob;
  assert.equal((await image.text()).slice(0, 6), "GIF89a");
}

async function callCollecting() {
  const body = [
    { url: PAGE, visitorId: "ada", userAgent: FIREFOX, status: 200 },
    { path: "/guide.md", visitorId: 7, userAgent: "ChatGPT-User/1.0" },
    { type: "search" as const, query: "dark mode", results: 0 },
    {
      type: "assistant" as const,
      threadId: "thread-1",
      query: "How?",
      response: "So.",
      sources: [{ title: "Install", url: "/install" }],
      caller: "web",
    },
    { type: "feedback" as const, path: "/install", helpful: true, contact: "ada@example.org" },
    { type: "feedback" as const, path: "/install", code: "x = 1", lang: "python" },
  ];
  assert.equal((await read("sendEvents", sdk.sendEvents({ path, body }), 202)).accepted, body.length);
  const one = await read("sendEvents", sdk.sendEvents({ path, body: { path: "/logo.png" } }), 202);
  assert.deepEqual(one.dropped.map((each) => each.reason), ["not_a_page"]);
}

async function callReports() {
  const query = { dateFrom: day(-1), dateTo: day(1) };
  const times = { dateFrom: new Date(Date.now() - 3600_000).toISOString(), dateTo: new Date().toISOString() };
  const visitors = await read("exportVisitors", sdk.exportVisitors({ path, query: { ...query, limit: 1, offset: 0 } }));
  assert.deepEqual(visitors.totals, { human: 1, ai: 1, total: 2 });
  assert.equal(visitors.visitors[0]?.path, "/guide");
  assert.equal(visitors.hasMore, true);
  const views = await read("exportViews", sdk.exportViews({ path, query }));
  assert.equal(views.totals.total, views.views.reduce((sum, row) => sum + row.total, 0));
  const agents = await read("exportAgents", sdk.exportAgents({ path, query }));
  assert.ok(agents.agents.some((row) => row.agent === "ChatGPT-User" && row.class === "assistant"));
  const missing = await read("exportMissing", sdk.exportMissing({ path, query }));
  assert.deepEqual([missing.missing, missing.hasMore], [[], false]);
  const history = await read("exportHistory", sdk.exportHistory({ path, query }));
  assert.deepEqual([history.history, history.hasMore], [[], false]);
  const historyPages = await read("exportHistoryPages", sdk.exportHistoryPages({ path, query }));
  assert.deepEqual([historyPages.pages, historyPages.hasMore], [[], false]);
  const series = await read("exportTimeseries", sdk.exportTimeseries({ path, query: { ...query, interval: "day" } }));
  assert.deepEqual(series.timeseries.map((point) => point.date), [day(0)]);

  await callFeedback(times);
  const first = await read("listSearches", sdk.listSearches({ path, query: { ...times, limit: 1 } }));
  assert.equal(first.totalSearches, 2);
  const second = await read("listSearches", sdk.listSearches({ path, query: { limit: 1, cursor: first.nextCursor } }));
  assert.deepEqual([first, second].map((page) => page.searches[0]?.searchQuery).sort(), ["dark mode", "install"]);
  assert.equal(second.nextCursor, null);
  const { conversations } = await read("listConversations", sdk.listConversations({ path, query: times }));
  assert.equal(conversations[0]?.sources[0]?.title, "Install");
  const callers = await read("countCallers", sdk.countCallers({ path }));
  assert.deepEqual([callers.web, callers.total], [1, 1]);
  const threadId = conversations[0]!.threadId;
  const thread = await read("getThread", sdk.getThread({ path: { ...path, threadId } }));
  assert.deepEqual(thread.messages.map((message) => message.role), ["user", "assistant"]);
}

async function callFeedback(times: { dateFrom: string; dateTo: string }) {
  const first = await read("listFeedback", sdk.listFeedback({ path, query: { ...times, limit: 2 } }));
  const rest = await read("listFeedback", sdk.listFeedback({ path, query: { limit: 2, cursor: first.nextCursor } }));
  assert.deepEqual([first.hasMore, rest.hasMore], [true, false]);
  const entries = [...first.feedback, ...rest.feedback];
  const snippet = entries.find((entry) => entry.source === "code_snippet") as SnippetResponse;
  assert.deepEqual([snippet.code, snippet.lang], ["x = 1", "python"]);
  const feedbackId = entries.find((entry) => entry.source === "contextual")!.id;
  const patch = { path: { ...path, feedbackId }, body: { status: "resolved" as const } };
  assert.equal((await read("updateFeedback", sdk.updateFeedback(patch))).status, "resolved");
  const query = { source: "contextual" as const, status: "resolved,dismissed" };
  const found = await read("listFeedback", sdk.listFeedback({ path, query }));
  assert.deepEqual(found.feedback.map((entry) => entry.id), [feedbackId]);
  const pages = await read("feedbackByPage", sdk.feedbackByPage({ path, query: { limit: 10 } }));
  const page = { path: "/install", thumbsUp: 1, thumbsDown: 1, code: 1, total: 3 };
  assert.deepEqual(pages.feedback, [page]);
  const unknown = { ...patch, path: { ...path, feedbackId: "fb_" + "0".repeat(26) } };
  await refuse("updateFeedback", sdk.updateFeedback(unknown), 404, "feedback_not_found");
}

async function waitForEnd(id: string): Promise<JobResponse> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const job = await read("getJob", sdk.getJob({ path: { ...path, id } }));
    if (job.status !== "active") return job;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the job did not end");
}

async function callJobs() {
  assert.equal((await read("listModels", sdk.listModels({ path }))).default, "mechanic");
  assert.deepEqual((await read("getKey", sdk.getKey({ path }))).scopes, ["read", "write"]);
  const body = { prompt: "Replace “colour” with “color” on every page.", draft: true };
  const headers = { "Idempotency-Key": "once" };
  const { id } = await read("createJob", sdk.createJob({ path, body, headers }), 201);
  assert.equal((await read("createJob", sdk.createJob({ path, body, headers }), 201)).id, id);
  const of_job = { path: { ...path, id } };
  const job = await waitForEnd(id);
  assert.equal(job.status, "completed");
  assert.ok(job.prLink);
  const listed = await read("jobEvents", sdk.jobEvents({ ...of_job, headers: { Accept: "application/json" } as {} }));
  assert.ok(typeof listed === "object" && listed.events.length > 0);
  assert.match(await read("diffJob", sdk.diffJob({ ...of_job, parseAs: "text" })), /\+Pick a color\./);
  const prompt = "Replace “Pick” with “Choose” on every page.";
  assert.equal((await read("messageJob", sdk.messageJob({ ...of_job, body: { prompt } }))).status, "active");
  await waitForEnd(id);
  await refuse("cancelJob", sdk.cancelJob(of_job), 409, "wrong_state");
  assert.ok((await read("archiveJob", sdk.archiveJob(of_job))).archivedAt);
  assert.equal((await read("unarchiveJob", sdk.unarchiveJob(of_job))).archivedAt, null);
  const jobs = await read("listJobs", sdk.listJobs({ path, query: { limit: 1 } }));
  assert.deepEqual(jobs.jobs.map((each) => each.id), [id]);
  const retried = await read("retryJob", sdk.retryJob(of_job), 201);
  assert.equal(retried.prompt, job.prompt);
  await waitForEnd(retried.id);
  await refuse("getJob", sdk.getJob({ path: { ...path, id: NO_JOB } }), 404, "job_not_found");
}

async function callSessions() {
  called.add("createSession");
  const messages = [
    { role: "system" as const, content: "Be brief." },
    { role: "user" as const, content: "Replace “start” with “begin”." },
  ];
  let sessionId = "";
  const fetchSession: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    sessionId = response.headers.get("x-session-id") ?? "";
    return response;
  };
  const body = { messages, asDraft: true, model: "sonnet" };
  const { stream } = await sdk.createSession({ path, body, fetch: fetchSession, sseMaxRetryAttempts: 1 });
  let events = 0;
  for await (const _ of stream) events++;
  assert.ok(events > 0, "the stream had no event");
  const session = await read("getSession", sdk.getSession({ path: { ...path, id: sessionId } }));
  assert.deepEqual([session.sessionId, session.haulted], [sessionId, true]);
  const listed = await read("listSessions", sdk.listSessions({ path, query: { skip: 0, take: 1 } }));
  assert.equal(listed.allSessions[0]?.sessionId, sessionId);
  await refuse("getSession", sdk.getSession({ path: { ...path, id: NO_JOB } }), 404, "job_not_found");
}

// Every operation of a project refuses a wrong key and an unknown project.
async function callWithoutAccess() {
  const options = (projectId: string, body?: object) => ({
    path: { projectId, id: NO_JOB, feedbackId: "fb_" + "0".repeat(26), threadId: "none" },
    body,
  });
  const bodies: Record<string, object> = {
    createJob: { prompt: "Hello." },
    messageJob: { prompt: "Hello." },
    updateFeedback: { status: "resolved" },
    sendEvents: { path: "/" },
  };
  const open = ["healthz", "readyz", "metrics", "beacon", "sendBeacon", "pixel"];
  for (const name of Object.keys(sdk) as (keyof typeof sdk)[]) {
    if (open.includes(name) || name === "createSession") continue;
    const operation = sdk[name] as (options: object) => Promise<Result<unknown>>;
    const wrongKey = { ...options(PROJECT, bodies[name]), auth: () => "desk_" + "0".repeat(38) };
    await refuse(name, operation(wrongKey), 401, "key_rejected");
    await refuse(name, operation(options("proj_" + "0".repeat(26), bodies[name])), 404, "project_not_found");
  }
  await refuse("listFeedback", sdk.listFeedback({ path, query: { cursor: "no-cursor" } }), 400, "invalid_request");
}

await callPublicRoutes();
await callCollecting();
await callReports();
await callJobs();
await callSessions();
await callWithoutAccess();
assert.deepEqual([...called].sort(), Object.keys(sdk).sort());
console.log(JSON.stringify([...called].sort()));
