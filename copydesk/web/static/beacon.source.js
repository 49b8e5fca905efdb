// Counts the views of the page that loads it. No cookies, no storage, no retries. Options: docs/collect/beacon.md.
// Browsers load beacon.js, which scripts/beacon builds from this file. It uses old syntax for old browsers.
(function (window, document, navigator, location, script, options, collector, referrer, counted, waiting, pending, timer) {
  script = document.currentScript;
  if (!script || !script.dataset.site || (window.copydesk || 0).view) return;
  options = script.dataset;
  collector = new URL("v1/collect/" + options.site, script.src);
  referrer = document.referrer;

  // With data-hash, the fragment names the page: #/guide is the page /guide.
  function url() {
    return location.origin + location.pathname + ("hash" in options ? location.hash.replace(/^#!?\/*/, "/") : location.search);
  }

  // Routers change the query for filters and tabs, or add a slash. It is still the same page.
  function page() {
    return ("query" in options ? url() : url().split("?")[0]).replace(/\/+$/, "");
  }

  function on(target, event, act) {
    target.addEventListener(event, act);
  }

  function matches(globs) {
    return globs.split(/[ ,]+/).some(function (glob) {
      return RegExp("^" + glob.replace(/[^\w*]/g, "\\$&").replace(/\*/g, ".*") + "$").test(location.pathname);
    });
  }

  function send(event) {
    if (/^$|localhost$|^127\.|^\[::1/.test(location.hostname) && !("local" in options)) return;
    event.u = event.u || url();
    event.v = options.visitor;
    event.e = "" + Math.random() + Date.now();
    event = JSON.stringify(event);
    // A plain string is sent as text/plain, which browsers send to another origin without a preflight request.
    try {
      if (window.fetch) fetch(collector, {method: "POST", body: event, keepalive: true, credentials: "omit"}).catch(function () {});
      else navigator.sendBeacon(collector, event);
    } catch (fault) {}
  }

  function flush() {
    clearTimeout(timer);
    if (pending) send(pending);
    pending = 0;
  }

  // A page that is not visible yet (prerendered, or in a background tab) counts when it is shown. A view is sent half a
  // second later, or when the reader leaves: if the page calls missing() meanwhile, it is a missing page and not a view.
  function view(missing) {
    missing = missing === true;
    if (!missing || counted != page()) flush();
    if ((waiting = (document.hidden || document.prerendering) && (missing || 1))) return;
    counted = page();
    if (!("doNotTrack" in options && (navigator.doNotTrack == 1 || navigator.globalPrivacyControl)) && matches(options.include || "*") && !matches(options.exclude || "")) {
      pending = pending || {r: referrer, u: url()};
      if (missing) pending.k = "missing";
      timer = setTimeout(flush, 500);
    }
    referrer = url();
  }

  function shown() {
    if (waiting) view(waiting);
  }

  function moved() {
    if (page() != counted) view();
  }

  window.copydesk = {
    view: view,
    // For a page that says that there is no such page, if the server does not say so with 404 or 410.
    missing: function () {
      view(true);
    },
    // copydesk.feedback(true, "Clear.") or copydesk.feedback({helpful: true, comment: "Clear.", contact: "…"})
    feedback: function (helpful, comment, entry) {
      entry = helpful && helpful.constructor == Object ? helpful : {helpful: helpful, comment: comment};
      send({
        k: "feedback",
        h: entry.helpful == null ? null : !!entry.helpful,
        c: entry.comment,
        contact: entry.contact,
        code: entry.code,
        filename: entry.filename,
        lang: entry.lang,
        agent: entry.agent,
      });
    },
    // copydesk.search("install", {results: 3}), and again with {clicked: "/install"} when the reader opens a result
    search: function (query, found) {
      found = found || 0;
      send({k: "search", q: query, n: found.results, t: found.clicked});
    },
  };
  on(document, "visibilitychange", shown);
  on(document, "prerenderingchange", shown);
  on(window, "pagehide", flush);
  if ("manual" in options) return;
  view(/404|410/.test((performance.getEntriesByType("navigation")[0] || 0).responseStatus));

  // Back and forward can restore a page from the cache without a request. That counts as another view.
  on(window, "pageshow", function (event) {
    if (event.persisted) view();
  });
  if (window.navigation) on(navigation, "currententrychange", moved);
  else {
    on(window, "popstate", moved);
    ["pushState", "replaceState"].forEach(function (name) {
      var original = history[name];
      history[name] = function () {
        original.apply(this, arguments);
        moved();
      };
    });
  }
})(self, self.document, self.navigator, self.location);
