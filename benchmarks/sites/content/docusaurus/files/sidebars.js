module.exports = {
  docs: [
    'intro',
    {
      type: 'category',
      label: 'Guides',
      link: {type: 'doc', id: 'guides/index'},
      items: ['guides/quickstart', 'guides/retries', 'guides/security', 'guides/workers'],
    },
    {
      type: 'category',
      label: 'Reference',
      items: ['reference/settings', {type: 'doc', id: 'reference/the-client', label: 'Client'}, 'reference/errors'],
    },
    'about/license',
  ],
};
